package mycelium

import (
	"cmp"
	"context"
	"os/exec"
	"strings"
	"time"

	"writ"
)

// interfaceFlag limits the daemon's search for peers to an interface. Versions before 0.7.2 exit if they get it.
const interfaceFlag = "--peer-discovery-interface"

// helpWithin limits how long the daemon's program may take to print its help.
const helpWithin = 10 * time.Second

// discoveryArgs returns the part of the daemon's command line that limits its search for peers on the wires of the
// host.
func (n *Node) discoveryArgs() []string {
	if n.NoDiscovery {
		return []string{"--disable-peer-discovery"}
	}
	var args []string
	for _, name := range n.DiscoveryOn {
		args = append(args, interfaceFlag, name)
	}
	return args
}

// CheckDiscovery rejects limits of the search for peers that the daemon would ignore, or with which it would exit. A
// host without the program passes: its networks are local.
func (n *Node) CheckDiscovery(ctx context.Context) error {
	if len(n.DiscoveryOn) == 0 {
		return nil
	}
	if n.NoDiscovery {
		return writ.Errorf(writ.CodeUsage, "mycelium cannot search on %s: its search for peers is disabled",
			strings.Join(n.DiscoveryOn, ", ")).
			WithHint("use either --overlay-discover-on or --overlay-no-discovery")
	}
	for _, name := range n.DiscoveryOn {
		if !interfaceName(name) {
			return writ.Errorf(writ.CodeUsage, "%q is not the name of a network interface", name).
				WithHint("`ip -brief link` lists the interfaces")
		}
	}
	binary, err := n.binary()
	if err != nil {
		return nil //nolint:nilerr // Run reports it
	}
	limited, cancel := context.WithTimeout(ctx, helpWithin)
	defer cancel()
	help, err := exec.CommandContext(limited, binary, "--help").CombinedOutput()
	if strings.Contains(string(help), interfaceFlag) {
		return nil
	}
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "%s does not print its help: %w", binary, cmp.Or(ctx.Err(), err)).
			WithHint("install mycelium 0.7.2 or newer")
	}
	return writ.Errorf(writ.CodeUsage, "%s cannot limit its search for peers to interfaces", binary).
		WithHint("install mycelium 0.7.2 or newer; or use --overlay-no-discovery, and name each peer with --overlay-peer")
}

// interfaceName reports whether Linux accepts a name for an interface. It rejects names that start like a flag, because
// the daemon would parse them as one.
func interfaceName(name string) bool {
	return name != "" && len(name) <= 15 && name != "." && name != ".." && name[0] != '-' &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '/' || r == ':' || r > '~' })
}
