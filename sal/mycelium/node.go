// Package mycelium connects this host to the overlay network. It manages the host's key, the addresses derived from it,
// and the daemon that carries packets. It has no operations. It knows the daemon's command line and REST API, but not
// the networks that use the addresses.
//
// The key exists before the daemon, and only packets need the daemon: a host without mycelium has its addresses and
// local networks.
//
// Layout below Dir: priv_key.bin, the key; home/, an empty home for the daemon, so that it ignores personal settings;
// mycelium.log, its latest log.
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

// Node is this host in the overlay. It implements sal.Overlay.
type Node struct {
	Dir    string       // required: an absolute path
	Log    *slog.Logger // required by Run
	Binary string       // path or name of the daemon; "mycelium" on PATH if empty
	// Peers are the endpoints that the daemon connects to, "tcp://192.0.2.7:9651"; see CheckPeers. Without peers, it
	// waits for connections and searches for peers on its wire.
	Peers       []string
	Port        int    // port for peers, DefaultPort if 0
	API         string // "address:port" of its REST API, on loopback because it has no password; DefaultAPI if empty
	RPC         string // address of its unused JSON-RPC API; DefaultRPC if empty
	Tun         string // name of its network interface; "mycelium" if empty
	NoDiscovery bool   // do not connect to daemons that are discovered on the wire
	// DiscoveryOn limits the search for peers to these interfaces, by name; see CheckDiscovery. Empty means all.
	DiscoveryOn []string
	// Netns is the file of the daemon's network namespace, the process's own if empty.
	Netns string
	// Outlive keeps the daemon running when Run ends; the next Run adopts it. Otherwise, packets stop whenever the
	// runner stops.
	Outlive bool
	// Step is called before every single change of the disk and of processes; tests stop the node there. It may be nil.
	Step func(name string)

	mu    sync.Mutex // guards the fields below
	fault string     // why no daemon runs
	// version is the version of the daemon with process number asked.
	version    string
	versionPID int
	// asking is closed when the current request to the daemon is answered; nil without a request. last is the last
	// answer and lastAt its time.
	asking chan struct{}
	last   writ.Overlay
	lastAt time.Time
	silent bool // the last request was not answered
}

// Defaults of the daemon.
const (
	DefaultPort = 9651
	DefaultAPI  = "127.0.0.1:8989"
	DefaultRPC  = "127.0.0.1:8990"
)

// keyPath returns the path of the key, which also identifies the daemon of this node.
func (n *Node) keyPath() string { return filepath.Join(n.Dir, "priv_key.bin") }

// Address returns the host's own address in the overlay.
func (n *Node) Address(ctx context.Context) (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock() // only one call generates the key
	key, err := LoadKey(n.keyPath(), n.step)
	if err != nil {
		return netip.Addr{}, err
	}
	return Address(key.PublicKey()), ctx.Err()
}

// Subnet returns the range that the overlay routes to this host.
func (n *Node) Subnet(ctx context.Context) (netip.Prefix, error) {
	address, err := n.Address(ctx)
	if err != nil {
		return netip.Prefix{}, err
	}
	return Subnet(address), nil
}

var _ sal.Overlay = (*Node)(nil)

// CheckPeers rejects peers that the daemon would not accept or connect to. Some would make it exit at every start.
func CheckPeers(peers []string) error {
	for _, peer := range peers {
		if err := checkPeer(peer); err != nil {
			return err
		}
	}
	return nil
}

func checkPeer(peer string) error {
	const hint = "write it as tcp://192.0.2.7:9651 or tcp://[2001:db8::7]:9651; host names are not supported"
	proto, at, _ := strings.Cut(peer, "://")
	if proto == "vsock" { // CID:PORT
		if _, err := fmt.Sscanf(at+" ", "%d:%d ", new(uint32), new(uint32)); err != nil {
			return writ.Errorf(writ.CodeUsage, "%q is not a peer of mycelium", peer).
				WithHint("write it as vsock://2:9651, context and port")
		}
		return nil
	}
	address, err := netip.ParseAddrPort(at)
	if err != nil || address.Port() == 0 || !slices.Contains([]string{"tcp", "quic", "tls"}, proto) {
		return writ.Errorf(writ.CodeUsage, "%q is not a peer of mycelium", peer).WithHint(hint)
	}
	tcp := "tcp://" + at
	switch zone := address.Addr().Zone(); {
	case proto == "quic":
		return writ.Errorf(writ.CodeUsage,
			"the peer %s uses QUIC, which loses packets of 1388 bytes and more, and networks have an MTU of %d",
			peer, MTU).
			WithHint("use %s: daemons listen for both on the same port", tcp)
	case proto == "tls":
		return writ.Errorf(writ.CodeUsage, "the peer %s uses TLS, which is only for private networks of mycelium",
			peer).
			WithHint("use %s: the overlay encrypts its packets end to end", tcp)
	case strings.ContainsFunc(zone, func(r rune) bool { return r < '0' || r > '9' }):
		return writ.Errorf(writ.CodeUsage, "the peer %s names the interface %s, and mycelium exits with such a peer",
			peer, zone).
			WithHint("omit the peer: daemons on one wire discover each other; or use the interface's number, which `ip link` shows")
	}
	return nil
}

// MTU is the MTU of the overlay in bytes: that of the daemon's tunnel, which peers connected by TCP carry unfragmented.
const MTU = 1400

// Client returns a client for the daemon, whether it runs or not.
func (n *Node) Client() *Client { return clientIn(n.Netns, cmp.Or(n.API, DefaultAPI)) }

func (n *Node) step(name string) {
	if n.Step != nil {
		n.Step(name)
	}
}

// binary returns the path of the daemon's program.
func (n *Node) binary() (string, error) {
	path, err := exec.LookPath(cmp.Or(n.Binary, "mycelium"))
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// Status is the state of the host in the overlay.
type Status struct {
	Address netip.Addr   `json:"address"`
	Subnet  netip.Prefix `json:"subnet"`
	Running bool         `json:"running"` // a daemon answers
	// Connected means that packets can leave this host: a peer is alive.
	Connected bool    `json:"connected"`
	Detail    string  `json:"detail"` // a sentence for people
	Peers     []Peer  `json:"peers,omitempty"`
	Routes    []Route `json:"routes,omitempty"`
}

// Status asks the daemon for its state. Detail names the parts that are unknown; an error means that the host has no
// key.
func (n *Node) Status(ctx context.Context) (Status, error) {
	address, err := n.Address(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Status{Address: address, Subnet: Subnet(address)}
	if s.Detail = n.faultText(); s.Detail != "" {
		return s, nil
	}
	c := n.Client()
	info, err := c.Info(ctx)
	switch {
	case err != nil:
		s.Detail = fmt.Sprintf("the daemon does not answer at %s: %v", c.URL, err)
		return s, nil
	case info.Subnet != s.Subnet:
		s.Detail = fmt.Sprintf("another daemon listens at %s, with the addresses %s", c.URL, info.Subnet)
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
		s.Detail = fmt.Sprintf("none of %d peers is alive: networks of this node do not reach other nodes",
			len(s.Peers))
	}
	return s, nil
}

// Detail reports in a few words whether there is a daemon, without a request to it.
func (n *Node) Detail() string { return cmp.Or(n.faultText(), "overlay by mycelium") }

// faultText returns the reason why no daemon runs, "" if it should run.
func (n *Node) faultText() string {
	if _, err := n.binary(); err != nil {
		return "mycelium is not on PATH: networks of this node do not reach other nodes"
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

// Pauses between two starts of the daemon. They double while it exits soon after its start.
const (
	firstPause = time.Second
	longPause  = time.Minute
)
