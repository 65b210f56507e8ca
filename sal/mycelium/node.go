// Package mycelium is this host's place in the overlay network: its key, what addresses follow from that, and the daemon that carries
// packets. It has no operations. It knows the daemon's command line and its REST API; it must not know what networks are made of the addresses,
// nor who uses them.
//
// The key is there before the daemon, and everything but carrying packets works without one: a host that has no mycelium has its addresses,
// and networks that are local to it.
//
// On disk, below Dir: priv_key.bin, the key; home/, an empty home for the daemon, so that no settings of a person count; mycelium.log, what
// it said last.
package mycelium

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/sal"
)

// Node is this host in the overlay. It is a sal.Overlay.
type Node struct {
	Dir    string       // required: an absolute path
	Log    *slog.Logger // required by Run
	Binary string       // of the daemon; "mycelium", as it is on PATH, if empty
	// Peers are where the daemon connects to, "tcp://192.0.2.7:9651"; see CheckPeers. Without any it waits for others and looks around on its
	// wire.
	Peers       []string
	Port        int    // that it listens on for peers, DefaultPort if 0
	API         string // "address:port" of its REST API, on loopback because it asks for no password; DefaultAPI if empty
	RPC         string // of its JSON-RPC API, which nobody uses; DefaultRPC if empty
	Tun         string // the network interface that it makes; "mycelium" if empty
	NoDiscovery bool   // no peering with daemons that are found on the wire
	// DiscoveryOn limits the search for peers to these interfaces, by name; see CheckDiscovery. Empty means all.
	DiscoveryOn []string
	// Netns is the file of the network namespace in which it runs, the process's own if empty.
	Netns string
	// Outlive leaves the daemon running when Run ends; the next Run takes it over. Without it, packets stop whenever a runner does.
	Outlive bool
	// Step is called before every single change of the disk and of processes; tests stop the node there. It may be nil.
	Step func(name string)

	mu    sync.Mutex // guards what is below
	fault string     // why no daemon runs
	// version is that of the daemon with the number asked.
	version string
	asked   int
	// asking is closed when what is asked of the daemon is answered, nil if nothing is; last is what it said, and lastAt when.
	asking chan struct{}
	last   writ.Overlay
	lastAt time.Time
	silent bool // it gave no answer when it was asked last
}

// What the daemon itself takes when nothing else is said.
const (
	DefaultPort = 9651
	DefaultAPI  = "127.0.0.1:8989"
	DefaultRPC  = "127.0.0.1:8990"
)

// keyPath is where the key is. It is also what the daemon of this node is known by.
func (n *Node) keyPath() string { return filepath.Join(n.Dir, "priv_key.bin") }

// Address is the host's own address in the overlay.
func (n *Node) Address(ctx context.Context) (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock() // only one makes the key
	key, err := LoadKey(n.keyPath(), n.step)
	if err != nil {
		return netip.Addr{}, err
	}
	return Address(key.PublicKey()), ctx.Err()
}

// Subnet is what the overlay leads to this host.
func (n *Node) Subnet(ctx context.Context) (netip.Prefix, error) {
	address, err := n.Address(ctx)
	if err != nil {
		return netip.Prefix{}, err
	}
	return Subnet(address), nil
}

var _ sal.Overlay = (*Node)(nil)

// CheckPeers finds what the daemon would not take, or not connect to: with some it ends, each time it is started.
func CheckPeers(peers []string) error {
	for _, peer := range peers {
		if err := checkPeer(peer); err != nil {
			return err
		}
	}
	return nil
}

func checkPeer(peer string) error {
	const hint = "say where it is as tcp://192.0.2.7:9651 or tcp://[2001:db8::7]:9651; a name of a host is not taken"
	proto, at, _ := strings.Cut(peer, "://")
	if proto == "vsock" { // CID:PORT
		if _, err := fmt.Sscanf(at+" ", "%d:%d ", new(uint32), new(uint32)); err != nil {
			return writ.Errorf(writ.CodeUsage, "%q is no peer of mycelium", peer).WithHint("say where it is as vsock://2:9651, context and port")
		}
		return nil
	}
	address, err := netip.ParseAddrPort(at)
	if err != nil || address.Port() == 0 || !slices.Contains([]string{"tcp", "quic", "tls"}, proto) {
		return writ.Errorf(writ.CodeUsage, "%q is no peer of mycelium", peer).WithHint(hint)
	}
	tcp := "tcp://" + at
	switch zone := address.Addr().Zone(); {
	case proto == "quic":
		return writ.Errorf(writ.CodeUsage, "the peer %s is reached by QUIC, which loses packets of 1388 bytes and more, and networks have %d",
			peer, MTU).
			WithHint("name it as %s: daemons listen for both at the same port", tcp)
	case proto == "tls":
		return writ.Errorf(writ.CodeUsage, "the peer %s is reached by TLS, which is for private networks of mycelium only", peer).
			WithHint("name it as %s: what the overlay carries is encrypted from end to end", tcp)
	case strings.ContainsFunc(zone, func(r rune) bool { return r < '0' || r > '9' }):
		return writ.Errorf(writ.CodeUsage, "the peer %s has an interface by name, %s, with which mycelium ends", peer, zone).
			WithHint("leave it out: daemons on one wire find each other by themselves; or give the interface's number, which `ip link` shows")
	}
	return nil
}

// MTU is what fits through the overlay, in bytes: the daemon's tunnel has as much, and peers that are reached by TCP carry it whole.
const MTU = 1400

// Client returns a client of the daemon, whether it runs or not.
func (n *Node) Client() *Client { return clientIn(n.Netns, cmp.Or(n.API, DefaultAPI)) }

func (n *Node) step(name string) {
	if n.Step != nil {
		n.Step(name)
	}
}

// binary finds the daemon's program.
func (n *Node) binary() (string, error) {
	path, err := exec.LookPath(cmp.Or(n.Binary, "mycelium"))
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// Status is how the host stands in the overlay.
type Status struct {
	Address netip.Addr   `json:"address"`
	Subnet  netip.Prefix `json:"subnet"`
	Running bool         `json:"running"` // a daemon answers
	// Connected is whether packets can leave this host: a peer is alive.
	Connected bool    `json:"connected"`
	Detail    string  `json:"detail"` // a sentence for people
	Peers     []Peer  `json:"peers,omitempty"`
	Routes    []Route `json:"routes,omitempty"`
}

// Status asks the daemon how things are. What cannot be learned is said in its detail; an error means that the host has no key.
func (n *Node) Status(ctx context.Context) (Status, error) {
	address, err := n.Address(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Status{Address: address, Subnet: Subnet(address)}
	if s.Detail = n.why(); s.Detail != "" {
		return s, nil
	}
	c := n.Client()
	info, err := c.Info(ctx)
	switch {
	case err != nil:
		s.Detail = fmt.Sprintf("the daemon does not answer at %s: %v", c.URL, err)
		return s, nil
	case info.Subnet != s.Subnet:
		s.Detail = fmt.Sprintf("at %s there is another daemon, with the addresses %s", c.URL, info.Subnet)
		return s, nil
	}
	s.Running = true
	if s.Peers, err = c.Peers(ctx); err == nil {
		s.Routes, err = c.Routes(ctx)
	}
	if err != nil {
		s.Detail = err.Error()
		return s, nil
	}
	alive := 0
	for _, p := range s.Peers {
		if p.Alive() {
			alive++
		}
	}
	s.Connected = alive > 0
	s.Detail = fmt.Sprintf("%d of %d peers alive, %d routes", alive, len(s.Peers), len(s.Routes))
	if !s.Connected {
		s.Detail = fmt.Sprintf("none of %d peers is alive: what is on this node reaches only what is on this node", len(s.Peers))
	}
	return s, nil
}

// Detail says in a few words whether there is a daemon, without asking it.
func (n *Node) Detail() string { return cmp.Or(n.why(), "overlay by mycelium") }

// why says why there is no daemon, "" if there should be one.
func (n *Node) why() string {
	if _, err := n.binary(); err != nil {
		return "mycelium is not on PATH: what is on this node reaches only what is on this node"
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fault
}

func (n *Node) setFault(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = text
}

// Pauses between two starts of the daemon: they double while it ends soon after it began.
const (
	firstPause = time.Second
	longPause  = time.Minute
)
