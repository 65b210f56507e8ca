package simulated

import (
	"encoding/binary"
	"net/netip"
	"path/filepath"
	"sync"

	"writ"
	"writ/sal"
)

// choices holds the IPv4 addresses and ports that operations in progress have chosen and not yet recorded.
type choices struct {
	mu   sync.Mutex
	open map[string][]netip.Addr // by directory and resource
	// ports holds the published ports of resources that are being created or changed.
	ports map[string]claims
}

// claims are the published ports of a resource of a project.
type claims struct {
	project writ.ProjectID
	all     []sal.Claim
}

// choosing is shared by the drivers of machines and containers, which share networks.
var choosing = choices{open: make(map[string][]netip.Addr), ports: make(map[string]claims)}

// choose chooses an IPv4 address for a new resource on each of its networks that has an IPv4 range. The caller must
// call drop.
func (c *choices) choose(n node, r writ.ResourceID, networks []writ.Ref) ([]string, error) {
	ranges := n.ranges(r, networks)
	if len(ranges) == 0 {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	taken, err := c.taken(n)
	if err != nil {
		return nil, err
	}
	var all []string
	sum := hashOf(r)
	for _, prefix := range ranges {
		addr, ok := sal.FreeIPv4(prefix, binary.BigEndian.Uint32(sum[11:]), func(a netip.Addr) bool { return taken[a] })
		if !ok {
			return nil, writ.Errorf(writ.CodeQuotaExceeded, "all addresses of %s are in use", prefix).
				WithHint("delete unused machines and containers there, or create a network with a larger range")
		}
		all, taken[addr] = append(all, addr.String()), true
		c.open[n.choice(r)] = append(c.open[n.choice(r)], addr)
	}
	return all, nil
}

// drop removes the choices for a resource. It is called when the record contains them, or when the operation has
// failed.
func (c *choices) drop(n node, r writ.ResourceID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, n.choice(r))
	delete(c.ports, n.choice(r))
}

// taken returns the addresses of this node's machines and containers. It does not distinguish networks, because
// networks of a node never share a range with real drivers.
func (c *choices) taken(n node) (map[netip.Addr]bool, error) {
	taken := make(map[netip.Addr]bool)
	for _, module := range []string{"machine", "container"} {
		records, _, err := n.records(module).List()
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			for _, text := range r.Own.State.IPv4 {
				addr, _ := netip.ParseAddr(text)
				taken[addr] = true
			}
		}
	}
	for _, open := range c.open {
		for _, addr := range open {
			taken[addr] = true
		}
	}
	return taken, nil
}

// node is the directory of all modules that are simulated on one node.
type node string

// choice returns the key of a resource in choices and uses.
func (n node) choice(r writ.ResourceID) string { return filepath.Join(string(n), r.HostName()) }

// records returns the records of a module.
func (n node) records(module string) *sal.Records[own] {
	return &sal.Records[own]{Dir: filepath.Join(string(n), module, "records")}
}

// ranges returns the IPv4 ranges of networks, in order. It skips networks that have no IPv4 range or are not simulated.
func (n node) ranges(r writ.ResourceID, networks []writ.Ref) []netip.Prefix {
	var all []netip.Prefix
	for _, ref := range networks {
		network, err := n.records("network").Get(writ.ResourceID{Project: r.Project, Kind: ref.Kind, Name: ref.Name})
		if err != nil || network == nil {
			continue
		}
		text, _ := network.Spec["ipv4"].(string)
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}
