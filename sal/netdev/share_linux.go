package netdev

import (
	"context"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ"
	"writ/sal"
	"writ/sal/netdev/firewall"
)

// Several owners can share a port. The claim is in the record of each, and so is the readiness of the owner. The rules of
// a shared port follow from these records and are separate from the rules of links. An owner leaves them before the
// rules of its link are removed, and joins them after these exist.

// shares updates the rules of shared ports.
type shares struct{ *ports }

func setReadiness(ctx context.Context, d *Driver, owner sal.Owner, readiness sal.Readiness) error {
	h, leave, err := enter(ctx, d)
	if err != nil {
		return err
	}
	defer leave()
	r, err := h.publisher.published(owner)
	if writ.CodeOf(err) == writ.CodeResourceUnknown {
		return nil
	}
	if err != nil || r.Own.Link == nil || len(sal.Shared(r.Own.Link.Claims)) == 0 {
		return err
	}
	return failed("change the shared ports of "+owner.Resource.String(), shares(h.publisher).setReadiness(r, readiness))
}

// setReadiness repairs the rules even if the readiness is unchanged, because the last change may have been interrupted.
func (s shares) setReadiness(r *sal.Record[holding], readiness sal.Readiness) error {
	if r.Own.Link.Readiness != readiness {
		r.Own.Link.Readiness = readiness
		if err := s.records.holdings.Put(r); err != nil {
			return err
		}
	}
	if err := s.update(sharedPorts(r.Own.Link)); err != nil {
		return err
	}
	if readiness == sal.NotReady {
		forget(r.Own.Link, unix.IPPROTO_UDP) // clients that keep sending reach another owner
	}
	return nil
}

// sharedPorts returns the shared ports of a link, which may be nil.
func sharedPorts(l *link) (all []firewall.SharedPort) {
	if l == nil {
		return nil
	}
	for _, c := range sal.Shared(l.Claims) {
		all = append(all, sharedPortOf(c))
	}
	return all
}

func sharedPortOf(c sal.Claim) firewall.SharedPort {
	return firewall.SharedPort{Protocol: c.Protocol, Port: c.Port}
}

// update makes the rules of shared ports agree with the records, in one transaction if no port loses its last owner.
func (s shares) update(ports []firewall.SharedPort) error {
	if len(ports) == 0 {
		return nil
	}
	owners, _, err := s.records.holdings.List()
	if err != nil {
		return err
	}
	ruled, err := s.firewall.Devices()
	if err != nil {
		return err
	}
	var rulesets []firewall.Ruleset
	var unused []string
	for _, port := range ports {
		if devices, claimed := s.membersOf(port, owners, ruled); claimed {
			rulesets = append(rulesets, firewall.SharedRules(port, devices))
		} else {
			unused = append(unused, port.Name())
		}
	}
	if len(unused) > 0 {
		if err := s.firewall.Withdraw(unused...); err != nil {
			return err
		}
	}
	if len(rulesets) == 0 {
		return nil
	}
	return s.firewall.Put(rulesets...)
}

// membersOf returns the devices of the links that get the connections of a shared port. ruled holds the devices with
// rules. claimed reports whether an owner has the port.
func (s shares) membersOf(
	port firewall.SharedPort, owners []*sal.Record[holding], ruled []string,
) (devices []string, claimed bool) {
	members := map[sal.Readiness][]string{}
	for _, o := range owners {
		if o.Own.Phase == deleting || !slices.Contains(sharedPorts(o.Own.Link), port) {
			continue
		}
		claimed = true
		device, readiness := linkDevice(o.UID), o.Own.Link.Readiness
		if slices.Contains(ruled, device) { // otherwise it is about to get its rules, or has lost them in a reboot
			members[readiness] = append(members[readiness], device)
		}
	}
	devices = members[sal.Ready]
	if len(devices) == 0 {
		devices = members[sal.Doubtful]
	}
	if len(s.open.At(port.Port)) == 0 {
		devices = nil
	}
	slices.Sort(devices)
	return devices, claimed
}

// updateAll is update for the shared ports of a link, which may be nil, and all others that have rules.
func (s shares) updateAll(l *link) error {
	ports, err := s.firewall.SharedPorts()
	if err != nil {
		return err
	}
	for _, port := range sharedPorts(l) {
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return s.update(ports)
}

// forget removes connections to the inner end of a link from the kernel's table. Protocol 0 means every protocol.
// Otherwise datagrams of a client that keeps sending would never reach another owner of the port.
func forget(l *link, protocol uint8) {
	if l == nil {
		return
	}
	_, guest := l.ends()
	for i, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		var inner netlink.ConntrackFilter
		_ = inner.AddIP(netlink.ConntrackReplySrcIP, guest[i].Addr().AsSlice()) // only a second address is an error
		if protocol != 0 {
			_ = inner.AddProtocol(protocol)
		}
		// Without the kernel's module for this, the connections time out.
		_, _ = netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, &inner)
	}
}
