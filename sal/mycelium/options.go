package mycelium

import (
	"cmp"
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"writ"
)

// Options are the settings of the daemon's command line.
type Options struct {
	Binary string // path or name of the daemon; "mycelium" on PATH if empty
	// Peers are the endpoints that the daemon connects to, "tcp://192.0.2.7:9651"; see CheckPeers. Without peers, the
	// daemon waits for connections and searches for peers in the local network.
	Peers       []string
	Port        int    // port for peers, DefaultPort if 0
	API         string // "address:port" of its REST API, on loopback because it has no password; DefaultAPI if empty
	RPC         string // address of its unused JSON-RPC API; DefaultRPC if empty
	Tun         string // name of its network interface; "mycelium" if empty
	NoDiscovery bool   // do not connect to daemons discovered in the local network
	// DiscoveryOn limits the search for peers to these interfaces, by name; see CheckDiscovery. Empty means all.
	DiscoveryOn []string
}

// Defaults of the daemon.
const (
	DefaultPort = 9651
	DefaultAPI  = "127.0.0.1:8989"
	DefaultRPC  = "127.0.0.1:8990"
)

const (
	// keyFlag precedes the path of the key, which identifies the daemon of a node.
	keyFlag = "--key-file"
	// interfaceFlag limits the daemon's search for peers to an interface. Daemons before version 0.7.2 exit if the flag
	// is set.
	interfaceFlag = "--peer-discovery-interface"
)

func (o *Options) name() string { return cmp.Or(o.Binary, "mycelium") }
func (o *Options) port() string { return strconv.Itoa(cmp.Or(o.Port, DefaultPort)) }
func (o *Options) api() string  { return cmp.Or(o.API, DefaultAPI) }
func (o *Options) rpc() string  { return cmp.Or(o.RPC, DefaultRPC) }

// program returns the path of the daemon's program.
func (o *Options) program() (string, error) {
	path, err := exec.LookPath(o.name())
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// args returns the command line of a daemon with this key. A running daemon with the same command line is up to date.
func (o *Options) args(key string) ([]string, error) {
	program, err := o.program()
	if err != nil {
		return nil, err
	}
	args := []string{
		program, keyFlag, key, "--tcp-listen-port", o.port(), "--tun-name", cmp.Or(o.Tun, "mycelium"),
		"--api-addr", o.api(), "--jsonrpc-addr", o.rpc(), "--log-format", "plain",
		"--disable-quic", // a peer connected by QUIC would lose packets of MTU bytes: see CheckPeers
	}
	if o.NoDiscovery {
		args = append(args, "--disable-peer-discovery")
	} else {
		for _, name := range o.DiscoveryOn {
			args = append(args, interfaceFlag, name)
		}
	}
	if len(o.Peers) > 0 { // without a value for the flag, the daemon exits with an error
		args = append(append(args, "--peers"), o.Peers...)
	}
	return args, nil
}

// helpWithin limits how long the daemon's program may take to print its help.
const helpWithin = 10 * time.Second

// CheckDiscovery rejects a DiscoveryOn that the daemon would ignore, or that would make it exit. It returns nil on a
// host without the program, whose networks are local.
func (o *Options) CheckDiscovery(ctx context.Context) error {
	if len(o.DiscoveryOn) == 0 {
		return nil
	}
	if o.NoDiscovery {
		return writ.Errorf(writ.CodeUsage, "mycelium cannot search on %s: its search for peers is disabled",
			strings.Join(o.DiscoveryOn, ", ")).
			WithHint("use either --overlay-discover-on or --overlay-no-discovery")
	}
	for _, name := range o.DiscoveryOn {
		if !interfaceName(name) {
			return writ.Errorf(writ.CodeUsage, "%q is not the name of a network interface", name).
				WithHint("`ip -brief link` lists the interfaces")
		}
	}
	program, err := o.program()
	if err != nil {
		return nil //nolint:nilerr // Run reports it
	}
	limited, cancel := context.WithTimeout(ctx, helpWithin)
	defer cancel()
	help, err := exec.CommandContext(limited, program, "--help").CombinedOutput()
	if strings.Contains(string(help), interfaceFlag) {
		return nil
	}
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "%s does not print its help: %w", program, cmp.Or(ctx.Err(), err)).
			WithHint("install mycelium 0.7.2 or newer")
	}
	return writ.Errorf(writ.CodeUsage, "%s cannot limit its search for peers to interfaces", program).
		WithHint("install mycelium 0.7.2 or newer; or use --overlay-no-discovery, and name each peer with --overlay-peer")
}

// interfaceName reports whether Linux accepts a name for an interface. It rejects names that start with a hyphen,
// because the daemon would parse them as flags.
func interfaceName(name string) bool {
	return name != "" && len(name) <= 15 && name != "." && name != ".." && name[0] != '-' &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '/' || r == ':' || r > '~' })
}
