package netconfig

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"writ/internal/sleep"
)

// Intervals of DHCPv6, apart from lease times.
const (
	informAtLeast = 10 * time.Minute
	informAtMost  = 24 * time.Hour
	declineWithin = 2 * time.Second
)

// useDHCPv6 runs DHCPv6 for the purpose that a router requested, until ctx ends.
func (s *ipv6Watch) useDHCPv6(ctx context.Context, use dhcpv6Use) {
	do, wait, failing, l := s.leaseIPv6, time.Second, "got no address by DHCPv6: %v", askLimit
	switch use {
	case forAddresses: // as with DHCP, this text is shown until the first failure, and then the failure
		s.waits(s.card, v6, l, "asks for an address by DHCPv6")
	case forNameservers:
		do, wait, failing, l = s.inform, lookLater, "got no nameservers by DHCPv6, which its router names: %v", otherCards
	}
	for told := false; ctx.Err() == nil; _ = sleep.For(ctx, wait) {
		err := do(ctx)
		if ctx.Err() != nil {
			return
		}
		s.waits(s.card, v6, l, failing, err)
		if use == forNameservers && !told {
			s.Stage("network", s.card.name()+" "+failing, err)
			told = true
		}
	}
}

// lease6 is a DHCPv6 lease. After the time renew, the client asks its server for an extension; after the time rebind,
// it asks any server.
type lease6 struct {
	lease
	renew, rebind time.Duration
}

// leaseIPv6 obtains an address and renews it until it is lost.
func (s *ipv6Watch) leaseIPv6(ctx context.Context) error {
	client, err := newDHCPv6(s.card, s.settings.Name)
	if err != nil {
		return err
	}
	defer client.Close()
	given, err := client.request(ctx)
	if err != nil {
		return err
	}
	for had := (lease6{}); ; {
		l, err := readLease6(given)
		if had.address.IsValid() && (err != nil || had.address != l.address) {
			s.remove(s.card, byDHCPv6, had.lease)
		}
		if err != nil {
			return err
		}
		if had.address != l.address {
			s.setName(l.hostname)
		}
		if err := s.apply(s.card, byDHCPv6, l.lease); err != nil {
			s.remove(s.card, byDHCPv6, l.lease) // remove the part that was applied
			return err
		}
		had = l
		if given, err = s.renewIPv6(ctx, client, given, l); err != nil {
			if ctx.Err() == nil { // at shutdown the address stays, for the last reports
				s.remove(s.card, byDHCPv6, l.lease)
			}
			return err
		}
	}
}

// renewIPv6 waits until the lease is due for renewal and then asks for a renewal until the lease expires. After the
// rebind time, it asks all servers.
func (s *ipv6Watch) renewIPv6(
	ctx context.Context, client *dhcpv6Client, given *dhcpv6.Message, l lease6,
) (*dhcpv6.Message, error) {
	rebind, end := time.Now().Add(l.rebind), time.Now().Add(l.valid)
	for wait := l.renew; ; {
		if err := s.untilTaken(ctx, wait, l.address.Addr()); err != nil {
			if ctx.Err() == nil {
				client.decline(ctx, given)
			}
			return nil, err
		}
		kind, until := dhcpv6.MessageTypeRenew, rebind
		if !time.Now().Before(rebind) {
			kind, until = dhcpv6.MessageTypeRebind, end
		}
		asking, cancel := context.WithDeadline(ctx, until)
		next, err := client.ask(asking, kind, given, nil)
		cancel()
		switch {
		case err == nil:
			return next, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !time.Now().Before(end):
			return nil, fmt.Errorf("the lease expired: %w", err)
		}
		wait = max(time.Until(until)/2, answerIn)
	}
}

// untilTaken waits for the time `wait`. It returns an error as soon as another machine is found to use the address.
func (s *ipv6Watch) untilTaken(ctx context.Context, wait time.Duration, address netip.Addr) error {
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		select {
		case <-over.C:
			return nil
		case taken := <-s.taken:
			if taken == address {
				return fmt.Errorf("another machine has %s", address)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// inform requests nameservers and refreshes them at the server's interval. It returns an error if no server answers.
func (s *ipv6Watch) inform(ctx context.Context) error {
	client, err := newDHCPv6(s.card, s.settings.Name)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		answer, err := client.ask(ctx, dhcpv6.MessageTypeInformationRequest, nil, nil)
		if err != nil {
			return err
		}
		if err := s.resolve(s.card, byDHCPv6, nameservers6(answer)); err != nil {
			return err
		}
		every := answer.Options.InformationRefreshTime(informAtMost)
		if err := sleep.For(ctx, min(max(every, informAtLeast), informAtMost)); err != nil {
			return err
		}
	}
}

// dhcpv6Client talks to the servers on the network of one card.
type dhcpv6Client struct {
	*nclient6.Client
	most time.Duration // limit for one request with its retries
	id   dhcpv6.DUID   // of the machine; derived from the card, so it is the same at every start
	iaid [4]byte       // of the card
	name string        // requested host name, "" if the server chooses one
}

func newDHCPv6(c *card, name string) (*dhcpv6Client, error) {
	address := c.link.Attrs().HardwareAddr
	if len(address) < 4 {
		return nil, fmt.Errorf("%s has no hardware address to identify it to a DHCPv6 server", c.name())
	}
	client, err := nclient6.New(c.name(), nclient6.WithTimeout(answerIn), nclient6.WithRetry(askTimes))
	if err != nil {
		return nil, err
	}
	return &dhcpv6Client{
		client, askMost, &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: address},
		[4]byte(address[len(address)-4:]), name,
	}, nil
}

// request obtains an address from the first server that offers a valid one.
func (d *dhcpv6Client) request(ctx context.Context) (*dhcpv6.Message, error) {
	var refused error
	offer, err := d.ask(ctx, dhcpv6.MessageTypeSolicit, nil, func(m *dhcpv6.Message) bool {
		_, refused = readLease6(m)
		return refused == nil
	})
	if err != nil {
		return nil, cmp.Or(refused, err)
	}
	return d.ask(ctx, dhcpv6.MessageTypeRequest, offer, nil)
}

// decline returns an address to the server, because another machine uses it.
func (d *dhcpv6Client) decline(ctx context.Context, given *dhcpv6.Message) {
	ctx, cancel := context.WithTimeout(ctx, declineWithin)
	defer cancel()
	// A server that does not receive this message offers the address again and gets another decline.
	_, _ = d.ask(ctx, dhcpv6.MessageTypeDecline, given, nil)
}

// ask sends a message about the lease in `given` and returns the first matching answer.
func (d *dhcpv6Client) ask(
	ctx context.Context, kind dhcpv6.MessageType, given *dhcpv6.Message, fits func(*dhcpv6.Message) bool,
) (answer *dhcpv6.Message, err error) {
	question, err := d.message(kind, given)
	if err != nil {
		return nil, err
	}
	answers := dhcpv6.MessageTypeReply
	if kind == dhcpv6.MessageTypeSolicit {
		answers = dhcpv6.MessageTypeAdvertise
	}
	err = within(ctx, d.most, func(ctx context.Context) (err error) {
		answer, err = d.SendAndRead(ctx, d.RemoteAddr(), question, func(m *dhcpv6.Message) bool {
			to := m.Options.ClientID()
			return m.MessageType == answers && to != nil && bytes.Equal(to.ToBytes(), d.id.ToBytes()) &&
				(fits == nil || fits(m))
		})
		return err
	})
	return answer, err
}

// message builds a request for the server in `given`, or for all servers if `given` is nil.
func (d *dhcpv6Client) message(kind dhcpv6.MessageType, given *dhcpv6.Message) (*dhcpv6.Message, error) {
	m, err := dhcpv6.NewMessage(dhcpv6.WithClientID(d.id), dhcpv6.WithOption(dhcpv6.OptElapsedTime(0)),
		dhcpv6.WithRequestedOptions(dhcpv6.OptionDNSRecursiveNameServer, dhcpv6.OptionFQDN,
			dhcpv6.OptionInformationRefreshTime),
		dhcpv6.WithOption(&dhcpv6.OptFQDN{DomainName: d.partialName()}))
	if err != nil {
		return nil, err
	}
	m.MessageType = kind
	if kind == dhcpv6.MessageTypeInformationRequest {
		return m, nil
	}
	address := &dhcpv6.OptIANA{IaId: d.iaid}
	if given != nil {
		if one := given.Options.OneIANA(); one != nil {
			for _, has := range one.Options.Addresses() {
				address.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: has.IPv6Addr})
			}
		}
		if kind != dhcpv6.MessageTypeRebind { // a rebind goes to all servers
			m.AddOption(dhcpv6.OptServerID(given.Options.ServerID()))
		}
	}
	m.AddOption(address)
	return m, nil
}

// partialName returns the host name without a domain. The server may add the domain.
func (d *dhcpv6Client) partialName() *rfc1035label.Labels {
	name := rfc1035label.NewLabels()
	if d.name != "" {
		// The bytes omit the terminating root label, which marks a fully qualified name.
		_ = name.FromBytes(append([]byte{byte(len(d.name))}, d.name...))
	}
	return name
}

// readLease6 converts the reply of a DHCPv6 server.
func readLease6(m *dhcpv6.Message) (lease6, error) {
	if m.Options.ServerID() == nil {
		return lease6{}, errors.New("the DHCPv6 server sent no server id")
	}
	one := m.Options.OneIANA()
	if err := refusal(m.Options.Status()); err != nil {
		return lease6{}, err
	}
	if one == nil {
		return lease6{}, errors.New("the DHCPv6 server gave no address")
	}
	if err := refusal(one.Options.Status()); err != nil {
		return lease6{}, err
	}
	given := one.Options.OneAddress()
	if given == nil {
		return lease6{}, errors.New("the DHCPv6 server gave no address")
	}
	address, ok := netip.AddrFromSlice(given.IPv6Addr)
	if !ok || !address.Is6() || address.Is4In6() || !address.IsGlobalUnicast() || given.ValidLifetime < answerIn ||
		given.PreferredLifetime > given.ValidLifetime {
		return lease6{}, fmt.Errorf("the DHCPv6 server gave %s for %s, which is not a host address", given.IPv6Addr,
			given.ValidLifetime)
	}
	l := lease6{lease: lease{address: netip.PrefixFrom(address,
		address.BitLen()), nameservers: nameservers6(m), hostname: hostname6(m),
		valid: given.ValidLifetime, preferred: given.PreferredLifetime}, renew: one.T1, rebind: one.T2}
	if l.rebind <= 0 || l.rebind > l.valid {
		l.rebind = l.valid / 5 * 4
	}
	if l.renew <= 0 || l.renew > l.rebind {
		l.renew = min(l.preferred/2, l.rebind)
	}
	l.renew = min(max(l.renew, answerIn), leaseAtMost/2)
	return l, nil
}

// refusal returns the error in a status code, or nil on success.
func refusal(status *dhcpv6.OptStatusCode) error {
	if status == nil || status.StatusCode == iana.StatusSuccess {
		return nil
	}
	return fmt.Errorf("the DHCPv6 server returned %s: %q", status.StatusCode, status.StatusMessage)
}

func nameservers6(m *dhcpv6.Message) (all []netip.Addr) {
	for _, server := range m.Options.DNS() {
		if a, ok := netip.AddrFromSlice(server); ok && a.IsGlobalUnicast() {
			all = append(all, a)
		}
	}
	return all[:min(len(all), serversAtMost)]
}

func hostname6(m *dhcpv6.Message) string {
	name := m.Options.FQDN()
	if name == nil || name.DomainName == nil || len(name.DomainName.Labels) == 0 {
		return ""
	}
	return strings.ToLower(name.DomainName.Labels[0])
}
