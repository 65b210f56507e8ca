// Package netdev is the network driver: each network is a bridge of its own in the kernel of this host, and what is on it has a tap or one
// end of a veth pair there. It names devices, gives addresses, and lets nothing in from outside but what network.allow says; packets that
// bear another's address go nowhere. It must not know what machines and containers are, nor how the overlay carries packets.
//
// Names. A network's bridge has the name of writ.ResourceID.HostName; a port is called "p", ten characters that follow from its owner's
// UID, "-" and a number. Every link has an alias that begins with "writ ", which is how ours are told from others of the same name. All
// rules are in two tables of nftables, "inet writ" and "bridge writ"; the chains, counters and entries of a network or port end or begin with
// the name of its device.
//
// Addresses. A network is a /96 of the host's range in the overlay, RANGE:ff0f:NNNN::/96, where NNNN follows from the network's project and
// name; its gateway is ::1 in it. A port's last 32 bits follow from the owner's UID. Both are kept in records and checked against others.
//
// On disk, below Dir: networks/ and ports/, records as package sal writes them. A record is there before the first link and gone after the
// last one. Rules are there before the link that they guard, and are changed in one transaction of the kernel.
package netdev

import (
	"net/netip"
	"path/filepath"
	"sync"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// MTU is what fits through the overlay: mycelium's tunnel has 1400 bytes.
const MTU = 1400

// Driver makes networks in one network namespace. It is also sal.Networks.
type Driver struct {
	Dir     string      // required: an absolute path; records are kept below it
	Overlay sal.Overlay // required: whose range the networks are cut of
	// Netns is the file of the network namespace in which networks are made, the process's own if empty.
	Netns string
	// Namespaces is the directory for the files of namespaces that owners get; DefaultNamespaces if empty.
	Namespaces string
	// Nameservers are those that what is on a network is told of, as far as it reaches them; see HostNameservers. They are asked for when a port
	// is. Nobody is told any if it is nil.
	Nameservers func() []netip.Addr
	// Step is called before every single change of Dir and of the kernel; tests stop the driver there. It may be nil.
	Step func(name string)

	mu sync.Mutex // operations take milliseconds each, and share tables and ranges
}

// DefaultNamespaces is where ip-netns(8) looks, so that operators see ours too.
const DefaultNamespaces = "/run/netns"

// Describe names the driver, and what its overlay says of itself.
func (d *Driver) Describe() writ.NodeDriver {
	detail := describeHost()
	if o, ok := d.Overlay.(interface{ Detail() string }); ok {
		detail += "; " + o.Detail()
	}
	return writ.NodeDriver{Module: "network", Name: "netdev", Detail: detail}
}

// network is what the record of a network keeps besides the spec.
type network struct {
	Phase phase                 `json:"phase"`
	Index uint16                `json:"index"`           // NNNN of its range
	Rules []catalog.NetworkRule `json:"rules,omitempty"` // what network.allow said last
}

// holding is what the record of an owner keeps.
type holding struct {
	Owner     writ.ResourceID `json:"owner"`
	Phase     phase           `json:"phase"`
	Namespace bool            `json:"namespace,omitempty"` // it has a namespace, and its ports are in there
	IDs       uint32          `json:"ids,omitempty"`       // as of sal.Owner: whose users the namespace belongs to
	Ports     []port          `json:"ports,omitempty"`
}

// port is a place on a network.
type port struct {
	Network writ.ResourceID `json:"network"`
	UID     writ.UID        `json:"uid"`    // of the network
	Number  int             `json:"number"` // in the name of its device
	Host    uint32          `json:"host"`   // the last bits of its IPv6 address
	IPv4    netip.Addr      `json:"ipv4,omitzero"`
}

// phase tells what a crash may have interrupted.
type phase string

const (
	making   phase = "making"   // there may be some of it
	changing phase = "changing" // it is whole, and what the record says may not be in the kernel yet
	ready    phase = "ready"
	deleting phase = "deleting" // there may be some of it, and it must go
)

func (d *Driver) networks() *sal.Records[network] {
	return &sal.Records[network]{Dir: filepath.Join(d.Dir, "networks"), Step: d.Step}
}

func (d *Driver) holdings() *sal.Records[holding] {
	return &sal.Records[holding]{Dir: filepath.Join(d.Dir, "ports"), Step: d.Step}
}

func (d *Driver) step(name string) {
	if d.Step != nil {
		d.Step(name)
	}
}

// kindOwner is under what holdings are kept: an owner is found by its UID alone.
const kindOwner writ.ResourceKind = "port"

// ownerID names the record of an owner.
func ownerID(uid writ.UID) writ.ResourceID {
	return writ.ResourceID{Kind: kindOwner, Name: string(uid)}
}

// alias marks a link as ours, and says whose it is.
func alias(uid writ.UID) string { return aliasPrefix + string(uid) }

const aliasPrefix = "writ "
