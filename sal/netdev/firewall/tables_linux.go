package firewall

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"writ/sal"
)

// Tables are the two tables of this package in the network namespace of the calling thread. They are not safe for
// concurrent use.
type Tables struct {
	step     func(name string)                // called before every transaction
	repaired func(format string, args ...any) // called for each ruleset that Put creates or replaces
	cached   *content                         // nil if the tables were not read, or have changed since then
}

// New returns the tables. step is called before each change, and repaired with a sentence for each ruleset that is
// missing or outdated. The caller must call Close.
func New(step func(name string), repaired func(format string, args ...any)) *Tables {
	return &Tables{step: step, repaired: repaired}
}

// Close releases the connection to the kernel.
func (t *Tables) Close() {
	if t.cached != nil {
		t.cached.close()
	}
}

// content reads the tables and caches them until they change.
func (t *Tables) content() (*content, error) {
	if t.cached != nil {
		return t.cached, nil
	}
	c, err := readContent()
	if err == nil {
		t.cached = c
	}
	return c, err
}

// transact removes c from the cache, because its connection will collect a transaction. The caller calls `after` at the
// end of the transaction.
func (t *Tables) transact(c *content) (after func()) {
	t.cached = nil
	return c.close
}

// Put creates or updates rulesets, and the rules of all networks, in one transaction. Existing counters keep their
// values.
func (t *Tables) Put(rulesets ...Ruleset) error {
	c, err := t.content()
	if err != nil {
		return err
	}
	all := []Ruleset{base()}
	for _, r := range rulesets {
		if r.shared != nil {
			all = append(all, r.shared())
		}
		all = append(all, r)
	}
	var missing []Ruleset
	for _, r := range all {
		if c.complete[r.name] || slices.ContainsFunc(missing, func(o Ruleset) bool { return o.name == r.name }) {
			continue
		}
		if c.complete[r.name], err = c.contains(r); err != nil {
			return err
		}
		if !c.complete[r.name] {
			t.repaired("the rules of %s were missing", orAll(r.name))
			missing = append(missing, r)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	defer t.transact(c)()
	next := begin(c)
	for _, r := range missing {
		if err := next.add(r); err != nil {
			return err
		}
	}
	t.step("install rules")
	return c.conn.Flush()
}

// orAll returns a description of the ruleset with a name: the device, the shared port, or the rules that all networks
// or links share.
func orAll(name string) string {
	switch name {
	case "":
		return "all networks"
	case linkShared:
		return "all published ports"
	}
	if p, ok := parseSharedPort(name); ok {
		return fmt.Sprintf("the shared port %d/%s", p.Port, p.Protocol)
	}
	return name
}

// Withdraw removes the rulesets of devices or shared ports in one transaction, and removes both tables if no other
// rulesets remain.
func (t *Tables) Withdraw(devices ...string) error {
	c, err := t.content()
	if err != nil || len(c.families) == 0 {
		return err
	}
	defer t.transact(c)()
	goes := func(name string) bool { return slices.Contains(devices, ownerOf(name)) }
	if !slices.ContainsFunc(c.chains,
		func(c *nftables.Chain) bool { return ownerOf(c.Name) != "" && !goes(c.Name) }) {
		for _, f := range c.families {
			c.conn.DelTable(tableOf(f))
		}
		t.step("delete the tables of rules")
		return c.conn.Flush()
	}
	changed := false
	for _, e := range c.entries {
		if goes(e.chain) || slices.Contains(devices, e.device()) {
			changed = true
			if err := c.conn.SetDeleteElements(mapOf(e.in), []nftables.SetElement{{Key: e.key}}); err != nil {
				return err
			}
		}
	}
	// A chain cannot be deleted while another chain jumps to it.
	for _, then := range []func(*nftables.Chain){c.conn.FlushChain, c.conn.DelChain} {
		for _, c := range c.chains {
			if goes(c.Name) {
				changed = true
				then(&nftables.Chain{Name: c.Name, Table: c.Table})
			}
		}
	}
	for _, counter := range c.counters {
		if goes(counter.Name) {
			changed = true
			c.conn.DeleteObject(counter)
		}
	}
	if !changed {
		return nil
	}
	t.step("take rules away")
	return c.conn.Flush()
}

// Devices returns the names of the devices and shared ports that have rules.
func (t *Tables) Devices() (names []string, err error) {
	c, err := t.content()
	if err != nil {
		return nil, err
	}
	for _, chain := range c.chains {
		if device := ownerOf(chain.Name); device != "" {
			names = append(names, device)
		}
	}
	return names, nil
}

// Publishes returns the device of the link to which a port of the host leads. For a shared port, it returns the name of
// its rules, and for any other port "".
func (t *Tables) Publishes(protocol string, port int64) (device string, err error) {
	c, err := t.content()
	if err != nil {
		return "", err
	}
	if i := (entry{in: mapOfPorts(protocol), key: portKey(port)}).find(c.entries); i >= 0 {
		device = ownerOf(c.entries[i].chain)
	}
	return device, nil
}

// Orphans returns the chains of devices that are not `known`.
func (t *Tables) Orphans(known map[string]bool) (all []sal.Orphan, err error) {
	c, err := t.content()
	if err != nil {
		return nil, err
	}
	for _, chain := range c.chains {
		if device := ownerOf(chain.Name); device != "" && !known[device] {
			name := familyName(chain.Table.Family) + " " + tableName + " " + chain.Name
			all = append(all, sal.Orphan{Kind: "chain", Name: name, Remedy: c.remedy(chain)})
		}
	}
	return all, nil
}

// remedy returns a command that deletes a chain and the map entries that lead to it. The command fails while a rule of
// another chain jumps to the chain.
func (c *content) remedy(chain *nftables.Chain) string {
	var all []string
	family := familyName(chain.Table.Family)
	for _, e := range c.entries {
		if e.chain != chain.Name || familyOf(e.in) != chain.Table.Family {
			continue
		}
		key := e.device()
		switch maps()[e.in] {
		case nftables.TypeIPAddr, nftables.TypeIP6Addr:
			if a, ok := netip.AddrFromSlice(e.key); ok {
				key = a.String()
			}
		case nftables.TypeInetService:
			key = strconv.Itoa(int(binary.BigEndian.Uint16(e.key)))
		}
		all = append(all, fmt.Sprintf("delete element %s %s %s { %s }", family, tableName, e.in, key))
	}
	for _, verb := range []string{"flush", "delete"} {
		all = append(all, fmt.Sprintf("%s chain %s %s %s", verb, family, tableName, chain.Name))
	}
	return sal.Command("nft", strings.Join(all, "; "))
}

func familyName(f nftables.TableFamily) string {
	if f == bridge {
		return "bridge"
	}
	return "inet"
}

// Dropped returns the numbers of packets that were dropped at a port; both are zero for a device without rules. denied
// counts packets from outside the network that no rule allowed. spoofed counts packets that the owner of the port sent
// with another source address than its own.
func (t *Tables) Dropped(device string) (denied, spoofed int64, err error) {
	c, err := t.content()
	if err != nil {
		return 0, 0, err
	}
	for _, counter := range c.counters {
		count, ok := counter.Obj.(*expr.Counter)
		switch {
		case !ok:
		case counter.Name == deniedCounter(device):
			denied += int64(count.Packets)
		case counter.Name == spoofedCounter(device):
			spoofed += int64(count.Packets)
		}
	}
	return denied, spoofed, nil
}
