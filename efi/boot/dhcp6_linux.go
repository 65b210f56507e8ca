package boot

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

// The paces of DHCPv6 besides those of addresses.
const (
	informAtLeast = 10 * time.Minute
	informAtMost  = 24 * time.Hour
	declineWithin = 2 * time.Second
)

// useDHCPv6 asks DHCPv6 servers for what a router says, until ctx ends.
func (s *ipv6Watch) useDHCPv6(ctx context.Context, use dhcpv6Use) {
	do, wait, failing, l := s.leaseIPv6, time.Second, "got no address by DHCPv6: %v", askLimit
	switch use {
	case forAddresses: // until it has failed once: then why is said, as with DHCP
		s.network.waits(s.card, v6, l, "asks for an address by DHCPv6")
	case forNameservers:
		do, wait, failing, l = s.inform, lookLater, "got no nameservers by DHCPv6, which its router names: %v", otherCards
	}
	for told := false; ctx.Err() == nil; _ = sleep.For(ctx, wait) {
		err := do(ctx)
		if ctx.Err() != nil {
			return
		}
		s.network.waits(s.card, v6, l, failing, err)
		if use == forNameservers && !told {
			s.stage("network", s.card.name()+" "+failing, err)
			told = true
		}
	}
}

// lease6 is a lease by DHCPv6: when its server is asked for more, and when any server is.
type lease6 struct {
	lease
	renew, rebind time.Duration
}

// leaseIPv6 gets an address and renews it until it is lost.
func (s *ipv6Watch) leaseIPv6(ctx context.Context) error {
	client, err := newDHCPv6(s.card, s.config.Name)
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
			s.remove(s.card, byDHCPv6, l.lease) // as much of it as was possible
			return err
		}
		had = l
		if given, err = s.renewIPv6(ctx, client, given, l); err != nil {
			if ctx.Err() == nil { // else the machine is turned off, and its last words go by this address
				s.remove(s.card, byDHCPv6, l.lease)
			}
			return err
		}
	}
}

// renewIPv6 waits until more of a lease is to be asked for, and asks until it is over. Other servers are asked once its own did not answer for long.
func (s *ipv6Watch) renewIPv6(ctx context.Context, client *dhcpv6Client, given *dhcpv6.Message, l lease6) (*dhcpv6.Message, error) {
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
			return nil, fmt.Errorf("the lease is over: %w", err)
		}
		wait = max(time.Until(until)/2, answerIn)
	}
}

// untilTaken waits. It returns an error if another machine is found to have the address meanwhile.
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

// inform gets nameservers, and gets them again when the server says so. It returns when there is no answer.
func (s *ipv6Watch) inform(ctx context.Context) error {
	client, err := newDHCPv6(s.card, s.config.Name)
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

// dhcpv6Client asks servers in the network of one card.
type dhcpv6Client struct {
	*nclient6.Client
	most time.Duration // for one question with its repetitions
	id   dhcpv6.DUID   // of the machine; it follows from the card, so that it is the same at each start
	iaid [4]byte       // of the card
	name string        // for the server, "" if it is to choose one
}

func newDHCPv6(c *card, name string) (*dhcpv6Client, error) {
	address := c.link.Attrs().HardwareAddr
	if len(address) < 4 {
		return nil, fmt.Errorf("%s has no hardware address that a DHCPv6 server could know it by", c.name())
	}
	client, err := nclient6.New(c.name(), nclient6.WithTimeout(answerIn), nclient6.WithRetry(askTimes))
	if err != nil {
		return nil, err
	}
	return &dhcpv6Client{client, askMost, &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: address}, [4]byte(address[len(address)-4:]), name}, nil
}

// request gets an address from the first server that has one.
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

// decline tells a server that another machine has the address that it gave.
func (d *dhcpv6Client) decline(ctx context.Context, given *dhcpv6.Message) {
	ctx, cancel := context.WithTimeout(ctx, declineWithin)
	defer cancel()
	_, _ = d.ask(ctx, dhcpv6.MessageTypeDecline, given, nil) // one that does not hear it gives the address again, and is told again
}

// ask sends a message about what a server has given, and returns the first answer that fits.
func (d *dhcpv6Client) ask(ctx context.Context, kind dhcpv6.MessageType, given *dhcpv6.Message, fits func(*dhcpv6.Message) bool) (answer *dhcpv6.Message, err error) {
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
			return m.MessageType == answers && to != nil && bytes.Equal(to.ToBytes(), d.id.ToBytes()) && (fits == nil || fits(m))
		})
		return err
	})
	return answer, err
}

// message is one to a server, or to all of them if none has given anything.
func (d *dhcpv6Client) message(kind dhcpv6.MessageType, given *dhcpv6.Message) (*dhcpv6.Message, error) {
	m, err := dhcpv6.NewMessage(dhcpv6.WithClientID(d.id), dhcpv6.WithOption(dhcpv6.OptElapsedTime(0)),
		dhcpv6.WithRequestedOptions(dhcpv6.OptionDNSRecursiveNameServer, dhcpv6.OptionFQDN, dhcpv6.OptionInformationRefreshTime),
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
		if kind != dhcpv6.MessageTypeRebind { // which goes to all
			m.AddOption(dhcpv6.OptServerID(given.Options.ServerID()))
		}
	}
	m.AddOption(address)
	return m, nil
}

// partialName is the name of the machine without a domain, which its server may add.
func (d *dhcpv6Client) partialName() *rfc1035label.Labels {
	name := rfc1035label.NewLabels()
	if d.name != "" {
		_ = name.FromBytes(append([]byte{byte(len(d.name))}, d.name...)) // without the end that a whole name has
	}
	return name
}

// readLease6 reads what a DHCPv6 server has given.
func readLease6(m *dhcpv6.Message) (lease6, error) {
	if m.Options.ServerID() == nil {
		return lease6{}, errors.New("the DHCPv6 server does not say who it is")
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
	if !ok || !address.Is6() || address.Is4In6() || !address.IsGlobalUnicast() || given.ValidLifetime < answerIn || given.PreferredLifetime > given.ValidLifetime {
		return lease6{}, fmt.Errorf("the DHCPv6 server gave %s for %s, which is no address of a host", given.IPv6Addr, given.ValidLifetime)
	}
	l := lease6{lease: lease{address: netip.PrefixFrom(address, address.BitLen()), nameservers: nameservers6(m), hostname: hostname6(m),
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

// refusal is the error that a DHCPv6 server tells, if it tells one.
func refusal(status *dhcpv6.OptStatusCode) error {
	if status == nil || status.StatusCode == iana.StatusSuccess {
		return nil
	}
	return fmt.Errorf("the DHCPv6 server says %s: %q", status.StatusCode, status.StatusMessage)
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
