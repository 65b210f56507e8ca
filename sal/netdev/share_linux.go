package netdev

import (
	"context"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/opening"
	"writ/sal"
	"writ/sal/netdev/firewall"
)

// Several owners can share a port. The record of each owner contains its claim and its readiness. The rules of a shared
// port are derived from these records, and are separate from the rules of links. They refer to the link of an owner
// only while the link has rules.

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
		forget(r.Own.Link, unix.IPPROTO_UDP) // clients that continue to send then reach another owner
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
// rules. claimed reports whether any owner has a claim to the port.
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
		if slices.Contains(ruled, device) { // otherwise the link has no rules yet, or has lost them in a reboot
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

// updateAll is update for the shared ports of a link, which may be nil, and for all other shared ports that have rules.
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

// forget removes connections to the guest end of a link from the kernel's connection table. protocol 0 means TCP and
// UDP. If ports are given, it only removes connections to these ports of the node. Without this, datagrams of a
// client that continues to send would never reach another owner of the port.
func forget(l *link, protocol uint8, ports ...uint16) {
	if l == nil {
		return
	}
	_, guest := l.ends()
	removeFlows(func(f *netlink.ConntrackFlow) bool {
		from, _ := netip.AddrFromSlice(f.Reverse.SrcIP)
		return (from == guest[0].Addr() || from == guest[1].Addr()) &&
			(protocol == 0 || f.Forward.Protocol == protocol) &&
			(len(ports) == 0 || slices.Contains(ports, f.Forward.DstPort))
	})
}

// removeFlows removes connections from the kernel's connection table if match returns true. Meanwhile, a client can
// reuse the port of a closed connection for a new one to another owner. removeFlows keeps the new connection, because
// it identifies connections by the source and destination of their replies, which contain the address of the owner.
func removeFlows(match func(*netlink.ConntrackFlow) bool) {
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		// Without the kernel's module for this, the connections time out.
		flows, _ := netlink.ConntrackTableList(netlink.ConntrackTable, family)
		for _, f := range flows {
			if match(f) {
				removeFlow(family, f.Reverse)
			}
		}
	}
}

// removeFlow removes the connection with these replies.
func removeFlow(family netlink.InetFamily, replies netlink.IPTuple) {
	source, destination := nl.CTA_IP_V4_SRC, nl.CTA_IP_V4_DST
	if family == unix.AF_INET6 {
		source, destination = nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	}
	tuple := nl.NewRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_REPLY, nil)
	addresses := tuple.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_IP, nil)
	addresses.AddRtAttr(source, replies.SrcIP)
	addresses.AddRtAttr(destination, replies.DstIP)
	ports := tuple.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_PROTO, nil)
	ports.AddRtAttr(nl.CTA_PROTO_NUM, []byte{replies.Protocol})
	ports.AddRtAttr(nl.CTA_PROTO_SRC_PORT, nl.BEUint16Attr(replies.SrcPort))
	ports.AddRtAttr(nl.CTA_PROTO_DST_PORT, nl.BEUint16Attr(replies.DstPort))
	const remove = unix.NFNL_SUBSYS_CTNETLINK<<8 | nl.IPCTNL_MSG_CT_DELETE
	request := nl.NewNetlinkRequest(remove, unix.NLM_F_ACK)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: uint8(family), Version: nl.NFNETLINK_V0})
	request.AddData(tuple)
	_, _ = request.Execute(unix.NETLINK_NETFILTER, 0) // it may have timed out meanwhile
}

// datagrams returns the UDP ports of the claims that are not in `others`.
func datagrams(claims, others []sal.Claim) (ports []uint16) {
	for _, c := range claims {
		if c.Protocol == "udp" && !slices.ContainsFunc(others, c.At) {
			ports = append(ports, uint16(c.Port))
		}
	}
	return ports
}

// forgetWithdrawn removes the UDP connections to ports that the link l had before and does not have now. l may be nil.
// TCP connections stay open.
func forgetWithdrawn(l *link, before []sal.Claim) {
	if l == nil {
		return
	}
	if ports := datagrams(before, l.Claims); len(ports) > 0 {
		forget(l, unix.IPPROTO_UDP, ports...)
	}
}

// forgetUnserved removes UDP connections to ports of new claims that began before these ports had an owner. Otherwise,
// a client that continues to send on such a connection would never reach the owner.
func forgetUnserved(open opening.List, before, claims []sal.Claim) {
	var all []netip.AddrPort
	for _, port := range datagrams(claims, before) {
		for _, address := range open.At(int64(port)) {
			all = append(all, netip.AddrPortFrom(address, port))
		}
	}
	if len(all) == 0 {
		return
	}
	removeFlows(func(f *netlink.ConntrackFlow) bool {
		to, _ := netip.AddrFromSlice(f.Forward.DstIP)
		return f.Forward.Protocol == unix.IPPROTO_UDP && slices.Contains(all, netip.AddrPortFrom(to, f.Forward.DstPort)) &&
			f.Reverse.SrcIP.Equal(f.Forward.DstIP) // no rule has translated the address
	})
}
