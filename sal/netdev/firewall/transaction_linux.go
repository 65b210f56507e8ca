package firewall

import (
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
)

// transaction adds rulesets to the tables. The connection of the content collects the changes until Flush.
type transaction struct {
	*content
	sets uint32 // number of sets; the library's counter is not safe for concurrent use
}

// begin returns a transaction that creates the tables and maps, which every ruleset needs.
func begin(c *content) *transaction {
	t := &transaction{content: c}
	for _, f := range families() {
		t.conn.AddTable(tableOf(f))
	}
	for name := range maps() {
		t.sets++
		created := mapOf(name)
		created.ID = t.sets
		if created.KeyType == nftables.TypeIFName {
			created.KeyByteOrder = binaryutil.NativeEndian // so that nft(8) prints names
		}
		_ = t.conn.AddSet(created, nil)
	}
	return t
}

// add adds a ruleset and replaces its existing parts.
func (t *transaction) add(r Ruleset) error {
	for _, c := range r.counters {
		t.conn.AddObj(&nftables.NamedObj{
			Table: tableOf(c.family), Name: c.name, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{},
		})
	}
	for _, c := range r.chains {
		created := &nftables.Chain{Name: c.name, Table: tableOf(c.family)}
		if c.hook != nil {
			created.Type, created.Hooknum, created.Priority = c.hook.kind, c.hook.at, c.hook.priority
		}
		t.conn.AddChain(created)
		t.conn.FlushChain(&nftables.Chain{Name: c.name, Table: tableOf(c.family)})
	}
	for _, c := range r.chains {
		for _, rule := range c.rules {
			if err := t.addRule(c, rule); err != nil {
				return err
			}
		}
	}
	for _, e := range t.stale(r) {
		if err := t.conn.SetDeleteElements(mapOf(e.in), []nftables.SetElement{{Key: e.key}}); err != nil {
			return err
		}
	}
	for _, e := range r.entries {
		if err := t.addEntry(e); err != nil {
			return err
		}
	}
	return nil
}

// addRule adds a rule and its own sets.
func (t *transaction) addRule(c chain, r rule) error {
	next := 0
	match := slices.Clone(r.match)
	for i, e := range match {
		lookup, ok := e.(*expr.Lookup)
		if !ok || lookup.SetName != "" {
			continue
		}
		of := r.sets[next]
		next++
		t.sets++
		own := &nftables.Set{
			ID: t.sets, Table: tableOf(c.family), Name: "__set%d", Anonymous: true, Constant: true,
			Interval: of.interval, KeyType: of.of,
		}
		if err := t.conn.AddSet(own, of.elements); err != nil {
			return err
		}
		match[i] = &expr.Lookup{SourceRegister: lookup.SourceRegister, SetName: own.Name, SetID: own.ID}
	}
	t.conn.AddRule(&nftables.Rule{
		Table:    tableOf(c.family),
		Chain:    &nftables.Chain{Name: c.name, Table: tableOf(c.family)},
		Exprs:    append(match, r.then...),
		UserData: userdata.AppendString(nil, userdata.Type(userdata.TypeComment), r.comment()),
	})
	return nil
}

// addEntry adds an entry to its map, and replaces an existing entry with the same key.
func (t *transaction) addEntry(e entry) error {
	is := e.find(t.entries)
	if is >= 0 && t.entries[is].chain == e.chain {
		return nil
	}
	if is >= 0 {
		if err := t.conn.SetDeleteElements(mapOf(e.in), []nftables.SetElement{{Key: e.key}}); err != nil {
			return err
		}
	}
	jump := &expr.Verdict{Kind: expr.VerdictJump, Chain: e.chain}
	return t.conn.SetAddElements(mapOf(e.in), []nftables.SetElement{{Key: e.key, VerdictData: jump}})
}
