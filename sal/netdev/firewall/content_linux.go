package firewall

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// tableName is the name of both tables of this package.
const tableName = "writ"

func tableOf(family nftables.TableFamily) *nftables.Table {
	return &nftables.Table{Name: tableName, Family: family}
}

func families() []nftables.TableFamily { return []nftables.TableFamily{inet, bridge} }

// buffer is the size of the socket buffers for a transaction and its answers, in bytes. A network with the maximum
// number of rules needs 5 MiB.
const buffer = 32 << 20

// connect returns a connection that collects a transaction. Flush executes it atomically. The caller must close it.
func connect() (*nftables.Conn, error) {
	return nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetWriteBuffer(buffer), c.SetReadBuffer(buffer))
	}))
}

// content is the content of the tables of this package.
type content struct {
	conn     *nftables.Conn
	families []nftables.TableFamily
	chains   []*nftables.Chain
	entries  []entry
	counters []*nftables.NamedObj
	complete map[string]bool // names of rulesets that are up to date
}

func (c *content) close() { _ = c.conn.CloseLasting() }

func readContent() (c *content, err error) {
	conn, err := connect()
	if err != nil {
		return nil, err
	}
	c = &content{conn: conn, complete: map[string]bool{}}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	tables, err := conn.ListTables()
	if err != nil {
		return nil, fmt.Errorf("list tables of nftables: %w", err)
	}
	for _, t := range tables {
		if t.Name == tableName && slices.Contains(families(), t.Family) {
			c.families = append(c.families, t.Family)
			if err := c.read(t); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// read adds the content of a table.
func (c *content) read(t *nftables.Table) error {
	chains, err := c.conn.ListChainsOfTableFamily(t.Family)
	if err != nil {
		return fmt.Errorf("list chains: %w", err)
	}
	for _, chain := range chains {
		if chain.Table.Name == tableName {
			chain.Table.Family = t.Family
			c.chains = append(c.chains, chain)
		}
	}
	sets, err := c.conn.GetSets(t)
	if err != nil {
		return fmt.Errorf("list maps: %w", err)
	}
	for _, m := range sets {
		if _, known := maps()[m.Name]; !known {
			continue
		}
		elements, err := c.conn.GetSetElements(m)
		if err != nil {
			return fmt.Errorf("list the map %s: %w", m.Name, err)
		}
		for _, e := range elements {
			c.entries = append(c.entries, entry{m.Name, e.Key, jumpOf(e)})
		}
	}
	counters, err := c.conn.GetNamedObjects(t)
	if err != nil {
		return fmt.Errorf("list counters: %w", err)
	}
	for _, counter := range counters {
		if named, ok := counter.(*nftables.NamedObj); ok && named.Type == nftables.ObjTypeCounter {
			c.counters = append(c.counters, named)
		}
	}
	return nil
}

// jumpOf returns the chain that an entry of a map jumps to. The kernel encodes it as a verdict's code and the chain's
// name.
func jumpOf(e nftables.SetElement) string {
	ad, err := netlink.NewAttributeDecoder(e.Val)
	if err != nil {
		return ""
	}
	for ad.Next() {
		if ad.Type() == unix.NFTA_VERDICT_CHAIN {
			return ad.String()
		}
	}
	return ""
}

// contains reports whether a ruleset is up to date in the kernel.
func (c *content) contains(r Ruleset) (bool, error) {
	for _, want := range r.chains {
		if !slices.ContainsFunc(c.chains,
			func(is *nftables.Chain) bool { return is.Name == want.name && is.Table.Family == want.family }) {
			return false, nil
		}
		table := tableOf(want.family)
		rules, err := c.conn.GetRules(table, &nftables.Chain{Name: want.name, Table: table})
		if err != nil {
			return false, fmt.Errorf("list the rules of %s: %w", want.name, err)
		}
		same := slices.EqualFunc(want.rules, rules, func(want rule, is *nftables.Rule) bool {
			comment, _ := userdata.GetString(is.UserData, userdata.Type(userdata.TypeComment))
			return comment == want.comment()
		})
		if !same {
			return false, nil
		}
	}
	for _, want := range r.entries {
		if i := want.find(c.entries); i < 0 || c.entries[i].chain != want.chain {
			return false, nil
		}
	}
	if len(c.stale(r)) > 0 {
		return false, nil
	}
	for _, want := range r.counters {
		if !slices.ContainsFunc(c.counters, func(is *nftables.NamedObj) bool {
			return is.Name == want.name && is.Table.Family == want.family
		}) {
			return false, nil
		}
	}
	return true, nil
}

// stale returns the map entries that lead to chains of a ruleset but are not part of the ruleset.
func (c *content) stale(r Ruleset) (all []entry) {
	for _, e := range c.entries {
		if device := ownerOf(e.chain); device != "" && device == r.name && e.find(r.entries) < 0 {
			all = append(all, e)
		}
	}
	return all
}
