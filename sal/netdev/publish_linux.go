package netdev

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/netns"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/netdev/firewall"
)

// publisher publishes ports of owners on the node.
type publisher struct{ *ports }

// enterFor is enterWithRange if the owner is on a network, and enter otherwise.
func enterFor(ctx context.Context, d *Driver, owner writ.UID) (h *host, leave func(), err error) {
	r, err := recordsOf(d).holdings.Get(ownerID(owner))
	if err != nil {
		return nil, nil, err
	}
	if r != nil && len(r.Own.Ports) > 0 {
		return enterWithRange(ctx, d)
	}
	return enter(ctx, d)
}

func publish(
	ctx context.Context, d *Driver, owner sal.Owner, wanted []catalog.Publish,
) ([]catalog.Published, error) {
	h, leave, err := enterFor(ctx, d, owner.UID)
	if err != nil {
		return nil, err
	}
	defer leave()
	return h.publisher.publish(owner, wanted)
}

func movePublished(
	ctx context.Context, d *Driver, from, to sal.Owner, wanted []catalog.Publish,
) ([]catalog.Published, error) {
	h, leave, err := enterFor(ctx, d, to.UID)
	if err != nil {
		return nil, err
	}
	defer leave()
	return h.publisher.move(from, to, wanted)
}

func connections(ctx context.Context, d *Driver, owner sal.Owner) (int, error) {
	h, leave, err := enter(ctx, d)
	if err != nil {
		return 0, err
	}
	r, err := h.publisher.published(owner)
	leave() // other owners must not wait while the sockets of a hostile program are counted
	if err != nil || r.Own.Link == nil {
		return 0, err
	}
	n, err := h.publisher.connections(r)
	return n, failed("count the connections of "+owner.Resource.String(), err)
}

func keepPublished(ctx context.Context, d *Driver, owner writ.UID) ([]catalog.Published, []sal.Drift, error) {
	h, leave, err := enterFor(ctx, d, owner)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	r, err := h.records.holdings.Get(ownerID(owner))
	if err != nil || r == nil || r.Own.Link == nil || r.Own.Phase != ready && r.Own.Phase != changing {
		return nil, nil, err
	}
	drift, err := h.publisher.keep(r)
	return sal.Claims{Open: d.Open}.Published(r.Own.Link.Claims), drift, err
}

// publish gives an owner exactly the wanted ports. It records a claim before it adds the rules for the port, and
// removes the rules before it removes the claim.
func (p publisher) publish(owner sal.Owner, wanted []catalog.Publish) ([]catalog.Published, error) {
	r, err := p.published(owner)
	if err != nil {
		return nil, err
	}
	return p.publishAfter(r, nil, wanted)
}

// move is publish for an owner that takes over ports from an earlier owner. The rules of a port change in one
// transaction. After a crash both owners may have a claim to a port. The port then leads to the owner whose rules were
// repaired last.
func (p publisher) move(from, to sal.Owner, wanted []catalog.Publish) ([]catalog.Published, error) {
	r, err := p.published(to)
	if err != nil {
		return nil, err
	}
	earlier, err := p.published(from)
	if writ.CodeOf(err) == writ.CodeResourceUnknown {
		return p.publishAfter(r, nil, wanted)
	}
	if err != nil {
		return nil, err
	}
	if r.Own.Link == nil { // the link must exist before a port is forwarded to it
		if err := p.addLink(r); err != nil {
			return nil, failed("publish the ports of "+to.Resource.String(), err)
		}
	}
	published, err := p.publishAfter(r, earlier, wanted)
	if err != nil || earlier.Own.Link == nil || len(earlier.Own.Link.Claims) == 0 {
		return published, err
	}
	return published, failed("withdraw the ports of "+from.Resource.String(), applyClaims(p, earlier, nil))
}

// published returns the record of an owner with a namespace. It returns RESOURCE_UNKNOWN for any other owner.
func (p publisher) published(owner sal.Owner) (*sal.Record[holding], error) {
	r, err := p.records.holdings.Get(ownerID(owner.UID))
	if err == nil && (r == nil || !r.Own.Namespace) {
		err = sal.Unknown(owner.Resource)
	}
	return r, err
}

// publishAfter gives an owner exactly the wanted ports. It takes ports over from an earlier owner, which may be nil.
func (p publisher) publishAfter(
	r, earlier *sal.Record[holding], wanted []catalog.Publish,
) ([]catalog.Published, error) {
	if len(wanted) == 0 && r.Own.Link == nil {
		return nil, nil
	}
	var had []sal.Claim
	owners := []writ.UID{r.UID}
	for _, o := range []*sal.Record[holding]{r, earlier} {
		if o != nil && o.Own.Link != nil {
			had, owners = append(had, o.Own.Link.Claims...), append(owners, o.UID)
		}
	}
	var err error
	claims := sal.Claims{Open: p.open}
	if claims.Taken, err = p.taken(r, owners, had); err != nil {
		return nil, err
	}
	chosen, err := claims.Choose(wanted, had)
	if err != nil {
		return nil, err
	}
	if earlier != nil {
		if err := succeed(p, r, earlier, chosen); err != nil {
			return nil, err
		}
	}
	var before []sal.Claim
	if r.Own.Link != nil {
		before = r.Own.Link.Claims
	}
	if err := p.apply(r, chosen); err != nil {
		return nil, failed("publish the ports of "+r.Own.Owner.String(), err)
	}
	forgetWithdrawn(r.Own.Link, before)
	forgetUnserved(p.open, before, chosen)
	return claims.Published(chosen), nil
}

// succeed records that the owner of r, with these claims, is ready for its shared ports. It also removes the claims of
// the earlier owner to ports for which the two owners have different share names. It does not change rules.
func succeed(p publisher, r, earlier *sal.Record[holding], claims []sal.Claim) error {
	differs := func(c sal.Claim) bool {
		i := slices.IndexFunc(claims, c.At)
		return i >= 0 && claims[i].Share != c.Share
	}
	if l := earlier.Own.Link; l != nil && slices.ContainsFunc(l.Claims, differs) {
		l.Claims = slices.DeleteFunc(slices.Clone(l.Claims), differs)
		if err := p.records.holdings.Put(earlier); err != nil {
			return err
		}
	}
	if len(sal.Shared(claims)) == 0 || r.Own.Link.Readiness == sal.Ready {
		return nil
	}
	r.Own.Link.Readiness = sal.Ready
	return p.records.holdings.Put(r)
}

// apply records claims and makes the kernel agree with them.
func (p publisher) apply(r *sal.Record[holding], claims []sal.Claim) error {
	switch {
	case len(claims) > 0 && r.Own.Link != nil && slices.Equal(claims, r.Own.Link.Claims) && r.Own.Phase == ready:
		return p.ports.ensure(r)
	case len(claims) > 0 && r.Own.Link != nil:
		return applyClaims(p, r, claims)
	case len(claims) > 0:
		number, err := p.freeNumber(r)
		if err != nil {
			return err
		}
		r.Own.Link = &link{Number: number, Claims: claims}
	case r.Own.Link == nil:
		return nil
	default:
		if err := applyClaims(p, r, nil); err != nil { // shared ports no longer lead to the link
			return err
		}
		if err := p.unplug(linkDevice(r.UID)); err != nil {
			return err
		}
		forget(r.Own.Link, 0)
		r.Own.Link = nil
	}
	return p.applyLink(r)
}

// applyClaims is applyLink with other claims. Before it changes the rules of the link, it removes the link from the
// shared ports that the link loses.
func applyClaims(p publisher, r *sal.Record[holding], claims []sal.Claim) error {
	before := sharedPorts(r.Own.Link)
	r.Own.Link.Claims, r.Own.Phase = claims, changing
	if err := p.records.holdings.Put(r); err != nil {
		return err
	}
	if err := shares(p).update(before); err != nil {
		return err
	}
	return p.applyLink(r)
}

// addLink gives an owner a link without ports.
func (p publisher) addLink(r *sal.Record[holding]) error {
	number, err := p.freeNumber(r)
	if err != nil {
		return err
	}
	r.Own.Link = &link{Number: number}
	return p.applyLink(r)
}

// applyLink records the link of an owner and makes the kernel agree with it.
func (p publisher) applyLink(r *sal.Record[holding]) error {
	r.Own.Phase = changing
	if err := p.records.holdings.Put(r); err != nil {
		return err
	}
	if err := p.ports.ensure(r); err != nil {
		return err
	}
	r.Own.Phase = ready
	r.Generation++
	return p.records.holdings.Put(r)
}

// freeNumber returns a number for the link of an owner. The addresses of the link are unused on this host.
func (p publisher) freeNumber(r *sal.Record[holding]) (uint16, error) {
	others, _, err := p.records.holdings.List()
	if err != nil {
		return 0, err
	}
	addresses, err := p.links.kernel.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return 0, err
	}
	return freeLink(r.UID, func(number uint16) (bool, error) {
		host, _ := link{Number: number}.ends()
		pair := host[0].Masked()
		if slices.ContainsFunc(others, func(o *sal.Record[holding]) bool {
			return o.UID != r.UID && o.Own.Link != nil && o.Own.Link.Number == number
		}) || slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return prefixOf(a.IPNet).Overlaps(pair) }) {
			return true, nil
		}
		w, err := overlap(p.links.kernel, pair)
		return w != nil, err
	})
}

// taken returns the function Taken of sal.Claims for the owner of r. Ports of `owners`, whose claims are `had`, are not
// taken. This is the case even if a process of the host now listens on such a port.
func (p publisher) taken(
	r *sal.Record[holding], owners []writ.UID, had []sal.Claim,
) (func(sal.Claim) string, error) {
	others, _, err := p.records.holdings.List()
	if err != nil {
		return nil, err
	}
	project := r.Own.Owner.Project
	return func(claim sal.Claim) string {
		known := slices.Clone(had) // claims of the owners and of others that share the port
		for _, o := range others {
			if o.Own.Link == nil || slices.Contains(owners, o.UID) {
				continue
			}
			for _, c := range o.Own.Link.Claims {
				switch {
				case !claim.At(c):
				case o.Own.Owner.Project != project || !claim.SharesWith(c):
					return c.User(o.Own.Owner, project)
				default:
					known = append(known, c)
				}
			}
		}
		// the records are not enough: a record may be damaged, and other nodes may share this host
		device, err := p.firewall.Publishes(claim.Protocol, claim.Port)
		i := slices.IndexFunc(known, claim.At)
		switch {
		case err != nil:
			return "the rules of the node cannot be read: " + err.Error()
		case device != "" && i >= 0 && known[i].Share != "" && device == sharedPortOf(claim).Name():
			return ""
		case device != "" && !slices.ContainsFunc(owners, func(o writ.UID) bool { return linkDevice(o) == device }):
			return "another resource on this host publishes it"
		case i >= 0:
			return ""
		}
		for _, address := range p.open.At(claim.Port) {
			if at := netip.AddrPortFrom(address, uint16(claim.Port)); isListening(claim.Protocol, at) {
				return "a process of the node listens on " + at.String()
			}
		}
		return ""
	}, nil
}

// ensure creates or repairs the link of an owner according to its record, the rules first. on are the ports of the
// owner. It returns the end of the link in the namespace, or nil if the owner has no link.
func (p publisher) ensure(r *sal.Record[holding], on []sal.Port) (*sal.Port, error) {
	if r.Own.Link == nil {
		return nil, nil
	}
	name, described := linkDevice(r.UID), describeLink(r.UID, *r.Own.Link)
	published := p.forwarded(*r.Own.Link)
	local := func(f firewall.ForwardedPort) bool { return f.Address.IsLoopback() }
	remote := func(f firewall.ForwardedPort) bool { return !local(f) }
	if slices.ContainsFunc(published, remote) {
		if err := p.links.enableForwarding(true); err != nil {
			return nil, err
		}
	}
	l, err := p.links.ours(name, "veth", r.UID)
	if err != nil {
		return nil, err
	}
	if err := p.firewall.Put(firewall.LinkRules(p.rulesOf(r, on, published))); err != nil {
		return nil, err
	}
	if l != nil {
		if l, err = p.keepPair(l, described.Device, p.namespaces.path(r.UID)); err != nil {
			return nil, err
		}
	}
	if l == nil {
		p.repaired("the link %s of %s was missing", name, r.Own.Owner)
		if l, err = p.newLink(name, *described, r); err != nil {
			return nil, err
		}
	}
	// Without claims, the link still carries connections that began before the ports moved to another owner.
	local4 := len(published) == 0 || slices.ContainsFunc(published, local)
	if err := p.configure(l, *r.Own.Link, local4); err != nil {
		return nil, err
	}
	if r.Own.Phase == ready {
		return described, shares(p).update(sharedPorts(r.Own.Link))
	}
	return described, shares(p).updateAll(r.Own.Link) // a port that the owner had before may still lead to the link
}

// configure sets the addresses and kernel settings of the end of a link on the host. local is true if clients on the
// host itself use 127.0.0.1: the kernel then has to accept replies to that address.
func (p publisher) configure(l netlink.Link, of link, local bool) error {
	if err := p.links.setMTU(l); err != nil { // with an MTU below 1280 bytes, the link has no IPv6 settings
		return err
	}
	name, localnet := l.Attrs().Name, "0"
	if local {
		localnet = "1"
	}
	for _, s := range [][2]string{
		{"ipv6/conf/" + name + "/disable_ipv6", "0"}, {"ipv6/conf/" + name + "/accept_ra", "0"},
		// without duplicate detection, the link-local address, which packets of other hosts need, is usable at once
		{"ipv6/conf/" + name + "/accept_dad", "0"},
		{"ipv4/conf/" + name + "/route_localnet", localnet},
	} {
		if err := p.set("/proc/sys/net/"+s[0], s[1]); err != nil {
			return err
		}
	}
	if err := p.links.apply(l, shape{}); err != nil {
		return err
	}
	host, _ := of.ends()
	return p.links.setAddresses(l, host[:]...)
}

// forwarded returns an entry for each claim of a link and each address that opens the port of the claim.
func (p publisher) forwarded(l link) []firewall.ForwardedPort {
	var all []firewall.ForwardedPort
	for _, c := range l.Claims {
		for _, address := range p.open.At(c.Port) {
			all = append(all, firewall.ForwardedPort{Address: address, Claim: c})
		}
	}
	return all
}

func (p publisher) rulesOf(r *sal.Record[holding], on []sal.Port, published []firewall.ForwardedPort) firewall.Link {
	host, guest := r.Own.Link.ends()
	rules := firewall.Link{
		Device: linkDevice(r.UID), Ports: published,
		Host: [2]netip.Addr{host[0].Addr(), host[1].Addr()}, Guest: [2]netip.Addr{guest[0].Addr(), guest[1].Addr()},
	}
	for _, port := range on {
		rules.Own = append(rules.Own, port.IPv6.Addr())
	}
	return rules
}

// keep repairs the published ports of an owner.
func (p publisher) keep(r *sal.Record[holding]) ([]sal.Drift, error) {
	p.drift = nil
	if err := p.ports.ensure(r); err != nil {
		return p.asDrift(err)
	}
	for _, c := range r.Own.Link.Claims {
		if len(p.open.At(c.Port)) == 0 {
			p.drift = append(p.drift, sal.Drift{What: fmt.Sprintf(
				"the operator of the node closed its port %d/%s: publish another port, or add this port to --publish of the runner", c.Port, c.Protocol)})
		}
	}
	barriers, err := firewall.Barriers(linkDevice(r.UID), true)
	if err != nil {
		return nil, failed("list the rules of other firewalls", err)
	}
	if !slices.ContainsFunc(p.forwarded(*r.Own.Link),
		func(f firewall.ForwardedPort) bool { return !f.Address.IsLoopback() }) {
		barriers = nil // connections of the host itself do not pass the chains for forwarded packets
	}
	return append(p.drift, barriers...), nil
}

// connections returns the number of unfinished TCP connections in the namespace of an owner that came through its link.
func (p publisher) connections(r *sal.Record[holding]) (n int, err error) {
	back, err := netns.Enter(p.namespaces.path(r.UID))
	if err != nil {
		return 0, err
	}
	defer back()
	_, guest := r.Own.Link.ends()
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		err := eachOpen(family, func(local netip.Addr) {
			if local.Unmap() == guest[0].Addr() || local == guest[1].Addr() {
				n++
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// openStates are the states of a socket that may still have to send something: it is being opened, is open, or is being
// closed and waits for an acknowledgement.
const openStates = 1<<netlink.TCP_SYN_RECV | 1<<netlink.TCP_NEW_SYN_REC | 1<<netlink.TCP_ESTABLISHED |
	1<<netlink.TCP_CLOSE_WAIT | 1<<netlink.TCP_FIN_WAIT1 | 1<<netlink.TCP_LAST_ACK | 1<<netlink.TCP_CLOSING

// Sizes of inet_diag_req_v2 and inet_diag_msg of linux/inet_diag.h, in bytes.
const (
	diagRequest = 56
	diagMessage = 72
)

// eachOpen calls do with the local address of each TCP socket of this network namespace in one of openStates. It stores
// no socket, because a hostile program may have millions.
func eachOpen(family uint8, do func(local netip.Addr)) error {
	body := make([]byte, diagRequest)
	body[0], body[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(body[4:], openStates)
	request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	request.AddRawData(body)
	return request.ExecuteIter(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY, func(msg []byte) bool {
		const from = 8 // after family, state, timer, retransmissions and both ports
		size := net.IPv4len
		if len(msg) < diagMessage {
			return true
		}
		if msg[0] == unix.AF_INET6 {
			size = net.IPv6len
		}
		local, _ := netip.AddrFromSlice(msg[from : from+size])
		do(local)
		return true
	})
}

// isListening reports whether a process in this network namespace uses an address and port. To check this, it listens
// there itself for a moment.
func isListening(protocol string, at netip.AddrPort) bool {
	var c io.Closer
	var err error
	if protocol == "udp" {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	} else {
		c, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	}
	if err != nil {
		return errors.Is(err, unix.EADDRINUSE)
	}
	_ = c.Close()
	return false
}
