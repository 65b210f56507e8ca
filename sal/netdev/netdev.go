// Package netdev is the network driver. Each network is a bridge in the kernel of this host; its guests have a tap or
// one end of a veth pair on it. The driver names devices, assigns addresses, and drops packets from outside unless
// network.allow permits them. It also drops packets with spoofed addresses. It does not know machines and containers,
// nor how the overlay carries packets.
//
// Names. A bridge is named by writ.ResourceID.HostName. A port is named "p", ten characters derived from its owner's
// UID, "-" and a number. Every link has an alias that begins with "writ ", which distinguishes it from links of other
// programs. All rules are in two nftables tables, "inet writ" and "bridge writ"; the names of chains, counters and
// entries of a network or port end or begin with the name of its device.
//
// Addresses. A network is a /96 of the host's range in the overlay, RANGE:ff0f:NNNN::/96, where NNNN is derived from
// the network's project and name; its gateway is ::1 in it. The last 32 bits of a port's address are derived from the
// owner's UID. NNNN and these bits are stored in records, and collisions are resolved.
//
// Layout below Dir: networks/ and ports/, records as package sal writes them. A record exists before the first link and
// until after the last one. Rules exist before the link that they guard, and change in one kernel transaction.
package netdev

import (
	"net/netip"
	"path/filepath"
	"sync"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// MTU is the MTU of the overlay in bytes: mycelium's tunnel has 1400.
const MTU = 1400

// Driver manages networks in one network namespace. It also implements sal.Networks.
type Driver struct {
	Dir     string      // required: an absolute path; holds the records
	Overlay sal.Overlay // required: provides the range of the networks
	// Netns is the file of the network namespace for the networks, the process's own if empty.
	Netns string
	// Namespaces is the directory for the files of owners' namespaces; DefaultNamespaces if empty.
	Namespaces string
	// Nameservers returns nameservers for guests; see HostNameservers. A guest gets those that it can reach. Nameservers
	// is called for each new port. If it is nil, guests get no nameservers.
	Nameservers func() []netip.Addr
	// Step is called before every single change of Dir and of the kernel; tests stop the driver there. It may be nil.
	Step func(name string)

	mu sync.Mutex // operations share tables and ranges, and take only milliseconds
}

// DefaultNamespaces is the directory of ip-netns(8), so that operators see our namespaces.
const DefaultNamespaces = "/run/netns"

// Describe returns the driver and the state of its overlay.
func (d *Driver) Describe() writ.NodeDriver {
	detail := describeHost()
	if o, ok := d.Overlay.(interface{ Detail() string }); ok {
		detail += "; " + o.Detail()
	}
	return writ.NodeDriver{Module: "network", Name: "netdev", Detail: detail}
}

// network is the driver's part of a network's record.
type network struct {
	Phase phase                 `json:"phase"`
	Index uint16                `json:"index"`           // NNNN of its range
	Rules []catalog.NetworkRule `json:"rules,omitempty"` // rules of the last network.allow
}

// holding is the driver's part of an owner's record.
type holding struct {
	Owner     writ.ResourceID `json:"owner"`
	Phase     phase           `json:"phase"`
	Namespace bool            `json:"namespace,omitempty"` // the ports are in a namespace of the owner
	IDs       uint32          `json:"ids,omitempty"`       // as in sal.Owner; the namespace belongs to these users
	Ports     []port          `json:"ports,omitempty"`
}

// port is an owner's connection to a network.
type port struct {
	Network writ.ResourceID `json:"network"`
	UID     writ.UID        `json:"uid"`    // of the network
	Number  int             `json:"number"` // in the name of its device
	Host    uint32          `json:"host"`   // the last bits of its IPv6 address
	IPv4    netip.Addr      `json:"ipv4,omitzero"`
}

// phase is the recorded progress of a network or holding. After a crash, it says which parts may exist.
type phase string

const (
	making   phase = "making"   // parts of it may exist
	changing phase = "changing" // complete, but the kernel may not have the latest record yet
	ready    phase = "ready"
	deleting phase = "deleting" // parts of it may exist and must be removed
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

// kindOwner is the kind of the records of owners, which are found by UID alone.
const kindOwner writ.ResourceKind = "port"

// ownerID returns the id of an owner's record.
func ownerID(uid writ.UID) writ.ResourceID {
	return writ.ResourceID{Kind: kindOwner, Name: string(uid)}
}

// alias returns the alias of a link, which marks it as ours and names its owner.
func alias(uid writ.UID) string { return aliasPrefix + string(uid) }

const aliasPrefix = "writ "
