package netconfig

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"

	"writ/efi/progress"
	"writ/internal/sleep"
)

// Timeouts of DHCP exchanges, for both address families.
const (
	answerIn    = time.Second // the first timeout; each retry doubles the timeout
	askTimes    = 4
	askFor      = (1<<askTimes - 1) * answerIn
	askMost     = askFor + answerIn // including replies to other clients, which restart the timer
	leaseAtMost = 24 * time.Hour    // for leases without an end
)

// asking configures the retries of the client. They take askFor in total.
var asking = []nclient4.ClientOpt{nclient4.WithTimeout(answerIn), nclient4.WithRetry(askTimes)}

// askLimit is the wait limit of a card without an address.
var askLimit = progress.Limit{Most: askFor, Then: "it asks again"}

// leases obtains a lease and renews it until it is lost.
func (n *Network) leases(ctx context.Context, c *card) error {
	client, err := nclient4.New(c.name(), asking...)
	if err != nil {
		return err
	}
	defer client.Close()
	options := []dhcpv4.Modifier{dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter,
		dhcpv4.OptionDomainNameServer,
		dhcpv4.OptionHostName, dhcpv4.OptionInterfaceMTU)}
	if n.settings.Name != "" {
		options = append(options, dhcpv4.WithOption(dhcpv4.OptHostName(n.settings.Name)))
	}
	var given *nclient4.Lease
	if err := within(ctx, 2*askMost, func(ctx context.Context) (err error) { // twice: an offer, then the lease
		given, err = client.Request(ctx, options...)
		return err
	}); err != nil {
		return err
	}
	had := lease{}
	for told := false; ; told = true {
		l, err := readLease(given.ACK)
		if err != nil {
			return err
		}
		if had.address.IsValid() && had.address != l.address {
			n.remove(c, byDHCP, had)
			told = false
		}
		if err := n.apply(c, byDHCP, l); err != nil {
			n.remove(c, byDHCP, l) // remove the part that was applied
			return err
		}
		had = l
		if !told {
			n.setName(l.hostname)
			n.has(c, v4, l.address)
			n.tell(ctx, "%s %s, by DHCP from %s for %s", c.name(), l, given.ACK.ServerIdentifier(), l.valid)
		}
		if given, err = renew(ctx, client, given, l.valid, options); err != nil {
			if ctx.Err() == nil { // at shutdown the address stays, for the last reports
				n.remove(c, byDHCP, l)
				n.has(c, v4)
				n.tellLost("%s has lost %s: %v", c.name(), l.address, err)
			}
			return err
		}
	}
}

var errNoAnswer = errors.New("no matching answer")

// within limits the time of a DHCP exchange. The library restarts its timer after every packet, even an unrelated one,
// so a stranger on the network could otherwise make it wait forever.
func within(ctx context.Context, most time.Duration, ask func(ctx context.Context) error) error {
	asking, cancel := context.WithTimeoutCause(ctx, most, errNoAnswer)
	defer cancel()
	err := ask(asking)
	if err != nil && asking.Err() != nil {
		err = context.Cause(asking)
	}
	return err
}

// renew waits for half of the lease and then asks for a renewal until the lease expires.
func renew(
	ctx context.Context, client *nclient4.Client, given *nclient4.Lease, valid time.Duration, options []dhcpv4.Modifier,
) (*nclient4.Lease, error) {
	end := time.Now().Add(valid)
	for left := valid; ; left = time.Until(end) {
		if err := sleep.For(ctx, max(left/2, answerIn)); err != nil {
			return nil, err
		}
		var next *nclient4.Lease
		err := within(ctx, askMost, func(ctx context.Context) (err error) {
			next, err = client.Renew(ctx, given, options...)
			return err
		})
		refused, nak := errors.AsType[*nclient4.ErrNak](err)
		switch {
		case err == nil:
			return next, nil
		case nak:
			return nil, refused
		case time.Now().After(end):
			return nil, fmt.Errorf("the lease expired: %w", err)
		}
	}
}

// readLease converts the ACK of a DHCP server.
func readLease(ack *dhcpv4.DHCPv4) (lease, error) {
	address, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	ones, bits := ack.SubnetMask().Size()
	if !ok || !isHost(address) || bits != 32 {
		return lease{}, fmt.Errorf("the DHCP server %s gave %s with the mask %s, which is not a host address",
			ack.ServerIdentifier(), ack.YourIPAddr, ack.SubnetMask())
	}
	l := lease{
		address: netip.PrefixFrom(address, ones), hostname: strings.ToLower(ack.HostName()),
		valid: min(ack.IPAddressLeaseTime(leaseAtMost), leaseAtMost),
	}
	if routers := ack.Router(); len(routers) > 0 {
		if gateway, ok := netip.AddrFromSlice(routers[0].To4()); ok && isHost(gateway) {
			l.gateway = gateway
		}
	}
	for _, server := range ack.DNS() {
		if a, ok := netip.AddrFromSlice(server.To4()); ok {
			l.nameservers = append(l.nameservers, a)
		}
	}
	if mtu, err := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, ack.Options); err == nil && mtu >= 576 {
		l.mtu = int(mtu)
	}
	return l, nil
}

// isHost reports whether an IPv4 address is valid for a host.
func isHost(a netip.Addr) bool { return a.IsGlobalUnicast() || a.IsLinkLocalUnicast() }
