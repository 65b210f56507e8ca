package netdev

import (
	"context"
	"encoding/binary"
	"net/netip"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// publications implements sal.Publisher.
type publications struct{ driver *Driver }

// Publish publishes ports of an owner that has a namespace.
func (p publications) Publish(
	ctx context.Context, owner sal.Owner, ports []catalog.Publish,
) ([]catalog.Published, error) {
	return publish(ctx, p.driver, owner, ports)
}

// Move publishes ports for the owner `to`, and takes ports over from the owner `from`.
func (p publications) Move(
	ctx context.Context, from, to sal.Owner, ports []catalog.Publish,
) ([]catalog.Published, error) {
	return movePublished(ctx, p.driver, from, to, ports)
}

// SetReadiness sets the readiness of an owner for its shared ports.
func (p publications) SetReadiness(ctx context.Context, owner sal.Owner, readiness sal.Readiness) error {
	return setReadiness(ctx, p.driver, owner, readiness)
}

// Connections returns the number of open TCP connections to the published ports of an owner.
func (p publications) Connections(ctx context.Context, owner sal.Owner) (int, error) {
	return connections(ctx, p.driver, owner)
}

// Keep repairs the published ports of an owner.
func (p publications) Keep(ctx context.Context, owner sal.Owner) ([]catalog.Published, []sal.Drift, error) {
	return keepPublished(ctx, p.driver, owner.UID)
}

// link is the connection through which clients reach the published ports of an owner: a veth pair with one end in the
// namespace of the owner. It carries no other traffic, so an owner needs no network to publish a port.
type link struct {
	Number    uint16        `json:"number"` // its addresses are derived from it
	Claims    []sal.Claim   `json:"claims"`
	Readiness sal.Readiness `json:"readiness,omitempty"` // of the owner, for shared ports
}

// Each link has two IPv4 and two IPv6 addresses from these ranges, which never leave the node. The IPv4 addresses are
// link-local. The range does not include 169.254.169.0/24, which clouds use.
var (
	links4 = netip.MustParsePrefix("169.254.64.0/18")
	links6 = netip.MustParsePrefix("fd77:7269:7400::/64")
)

// maxLinks is the maximum number of links on a node: links4 has two addresses for each link.
const maxLinks = 1 << 13

// linkInside is the name of a link's interface in the namespace of its owner.
const linkInside = "publish"

// linkDevice returns the name of a link's interface on the host.
func linkDevice(owner writ.UID) string { return ownerID(owner).HostName() + "-p" }

// ends returns the addresses of a link on the host and in the namespace, each with the range of the link.
func (l link) ends() (host, guest [2]netip.Prefix) {
	a4, a6 := links4.Addr().As4(), links6.Addr().As16()
	binary.BigEndian.PutUint16(a4[2:], binary.BigEndian.Uint16(a4[2:])+2*l.Number)
	binary.BigEndian.PutUint16(a6[14:], 2*l.Number)
	host = [2]netip.Prefix{netip.PrefixFrom(netip.AddrFrom4(a4), 31), netip.PrefixFrom(netip.AddrFrom16(a6), 127)}
	for i, p := range host {
		guest[i] = netip.PrefixFrom(p.Addr().Next(), p.Bits())
	}
	return host, guest
}

// describeLink returns the end of a link in the namespace of its owner as a port.
func describeLink(owner writ.UID, l link) *sal.Port {
	host, guest := l.ends()
	return &sal.Port{
		Device: linkInside, MAC: macOf(owner, linkInside), MTU: MTU,
		IPv4: guest[0], Router: host[0].Addr(), IPv6: guest[1], Gateway: host[1].Addr(),
	}
}

// freeLink returns a number for a new link that is not taken. It returns QUOTA_EXCEEDED if all numbers are taken.
func freeLink(owner writ.UID, taken func(number uint16) (bool, error)) (uint16, error) {
	first := binary.BigEndian.Uint16(hash("link", string(owner)))
	for i := range uint16(maxLinks) {
		number := (first + i) % maxLinks
		is, err := taken(number)
		if err != nil {
			return 0, err
		}
		if !is {
			return number, nil
		}
	}
	return 0, writ.Errorf(writ.CodeQuotaExceeded, "%d resources on this node publish ports, the maximum", maxLinks)
}
