package netdev

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"writ/sal"
)

// tableName is the name of both our tables.
const tableName = "writ"

func tableOf(family nftables.TableFamily) *nftables.Table {
	return &nftables.Table{Name: tableName, Family: family}
}

func families() []nftables.TableFamily {
	return []nftables.TableFamily{nftables.TableFamilyINet, nftables.TableFamilyBridge}
}

// buffer is the size of the socket buffers for a transaction and its answers, in bytes. A network with the maximum
// number of rules needs 5 MiB.
const buffer = 32 << 20

// batch returns a connection that collects a transaction. Flush executes it atomically. The caller must close it.
func batch() (*nftables.Conn, error) {
	return nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetWriteBuffer(buffer), c.SetReadBuffer(buffer))
	}))
}

// state is the content of our tables.
type state struct {
	conn     *nftables.Conn
	families []nftables.TableFamily
	chains   []*nftables.Chain
	entries  []present
	counters []*nftables.NamedObj
	right    map[string]bool // pieces that are up to date
	sets     uint32          // number of sets in the transaction; the library's counter is not safe for concurrent use
}

// present is an existing entry of a map.
type present struct {
	in    string
	key   []byte
	chain string
}

// rules reads our tables and caches them until they change.
func (h *host) rules() (*state, error) {
	if h.read != nil {
		return h.read, nil
	}
	s, err := readRules()
	if err == nil {
		h.read = s
	}
	return s, err
}

// transact removes the state from the cache, because a transaction is collected in it. The caller calls after at the
// end.
func (h *host) transact(s *state) (after func()) {
	h.read = nil
	return s.close
}

func (s *state) close() { _ = s.conn.CloseLasting() }

func readRules() (s *state, err error) {
	conn, err := batch()
	if err != nil {
		return nil, err
	}
	s = &state{conn: conn, right: map[string]bool{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	tables, err := conn.ListTables()
	if err != nil {
		return nil, fmt.Errorf("list tables of nftables: %w", err)
	}
	for _, t := range tables {
		if t.Name == tableName && slices.Contains(families(), t.Family) {
			s.families = append(s.families, t.Family)
			if err := s.read(t); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func (s *state) read(t *nftables.Table) error {
	chains, err := s.conn.ListChainsOfTableFamily(t.Family)
	if err != nil {
		return fmt.Errorf("list chains: %w", err)
	}
	for _, c := range chains {
		if c.Table.Name == tableName {
			c.Table.Family = t.Family
			s.chains = append(s.chains, c)
		}
	}
	sets, err := s.conn.GetSets(t)
	if err != nil {
		return fmt.Errorf("list maps: %w", err)
	}
	for _, m := range sets {
		if _, known := maps()[m.Name]; !known {
			continue
		}
		elements, err := s.conn.GetSetElements(m)
		if err != nil {
			return fmt.Errorf("list the map %s: %w", m.Name, err)
		}
		for _, e := range elements {
			s.entries = append(s.entries, present{m.Name, e.Key, jumpOf(e)})
		}
	}
	counters, err := s.conn.GetNamedObjects(t)
	if err != nil {
		return fmt.Errorf("list counters: %w", err)
	}
	for _, c := range counters {
		if named, ok := c.(*nftables.NamedObj); ok && named.Type == nftables.ObjTypeCounter {
			s.counters = append(s.counters, named)
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

// whole reports whether a piece is up to date in the kernel.
func (s *state) whole(p piece) (bool, error) {
	for _, c := range p.chains {
		if !slices.ContainsFunc(s.chains,
			func(there *nftables.Chain) bool { return there.Name == c.name && there.Table.Family == c.family }) {
			return false, nil
		}
		rules, err := s.conn.GetRules(tableOf(c.family), &nftables.Chain{Name: c.name, Table: tableOf(c.family)})
		if err != nil {
			return false, fmt.Errorf("list the rules of %s: %w", c.name, err)
		}
		same := slices.EqualFunc(c.rules, rules, func(want rule, is *nftables.Rule) bool {
			said, _ := userdata.GetString(is.UserData, userdata.Type(userdata.TypeComment))
			return said == want.comment()
		})
		if !same {
			return false, nil
		}
	}
	for _, e := range p.entries {
		if !slices.ContainsFunc(s.entries, func(there present) bool {
			return there.in == e.in && bytes.Equal(there.key, e.key) && there.chain == e.chain
		}) {
			return false, nil
		}
	}
	for _, c := range p.counters {
		if !slices.ContainsFunc(s.counters, func(there *nftables.NamedObj) bool {
			return there.Name == c.name && there.Table.Family == c.family
		}) {
			return false, nil
		}
	}
	return true, nil
}

// put creates or updates pieces in one transaction. Existing counters keep their values.
func (h *host) put(pieces ...piece) error {
	s, err := h.rules()
	if err != nil {
		return err
	}
	var missing []piece
	for _, p := range append([]piece{base()}, pieces...) {
		if s.right[p.name] {
			continue
		}
		if s.right[p.name], err = s.whole(p); err != nil {
			return err
		}
		if !s.right[p.name] {
			h.repaired("the rules of %s were missing", orAll(p.name))
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	defer h.transact(s)()
	s.prepare()
	for _, p := range missing {
		if err := s.add(p); err != nil {
			return err
		}
	}
	h.step("put rules in place")
	return s.conn.Flush()
}

func orAll(device string) string {
	if device == "" {
		return "all networks"
	}
	return device
}

// prepare begins a transaction with the tables and maps, which every piece needs.
func (s *state) prepare() {
	for _, f := range families() {
		s.conn.AddTable(tableOf(f))
	}
	for name, key := range maps() {
		s.sets++
		made := &nftables.Set{
			ID: s.sets, Table: tableOf(familyOf(name)), Name: name, IsMap: true, KeyType: key,
			DataType: nftables.TypeVerdict,
		}
		if key == nftables.TypeIFName {
			made.KeyByteOrder = binaryutil.NativeEndian // so that nft(8) prints names
		}
		_ = s.conn.AddSet(made, nil)
	}
}

// add adds a piece to the transaction and replaces its existing parts.
func (s *state) add(p piece) error {
	for _, c := range p.counters {
		s.conn.AddObj(&nftables.NamedObj{
			Table: tableOf(c.family), Name: c.name, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{},
		})
	}
	for _, c := range p.chains {
		made := &nftables.Chain{Name: c.name, Table: tableOf(c.family)}
		if c.hook != nil {
			made.Type, made.Hooknum, made.Priority = c.hook.kind, c.hook.at, c.hook.priority
		}
		s.conn.AddChain(made)
		s.conn.FlushChain(&nftables.Chain{Name: c.name, Table: tableOf(c.family)})
	}
	for _, c := range p.chains {
		for _, r := range c.rules {
			if err := s.addRule(c, r); err != nil {
				return err
			}
		}
	}
	for _, e := range p.entries {
		there := slices.IndexFunc(s.entries,
			func(there present) bool { return there.in == e.in && bytes.Equal(there.key, e.key) })
		if there >= 0 && s.entries[there].chain == e.chain {
			continue
		}
		in := &nftables.Set{
			Table: tableOf(familyOf(e.in)), Name: e.in, IsMap: true, KeyType: maps()[e.in],
			DataType: nftables.TypeVerdict,
		}
		if there >= 0 {
			if err := s.conn.SetDeleteElements(in, []nftables.SetElement{{Key: e.key}}); err != nil {
				return err
			}
		}
		element := nftables.SetElement{Key: e.key, VerdictData: &expr.Verdict{Kind: expr.VerdictJump, Chain: e.chain}}
		if err := s.conn.SetAddElements(in, []nftables.SetElement{element}); err != nil {
			return err
		}
	}
	return nil
}

// addRule adds a rule and its own sets.
func (s *state) addRule(c chain, r rule) error {
	next := 0
	match := slices.Clone(r.match)
	for i, e := range match {
		lookup, ok := e.(*expr.Lookup)
		if !ok || lookup.SetName != "" {
			continue
		}
		of := r.sets[next]
		next++
		s.sets++
		own := &nftables.Set{
			ID: s.sets, Table: tableOf(c.family), Name: "__set%d", Anonymous: true, Constant: true,
			Interval: of.interval, KeyType: of.of,
		}
		if err := s.conn.AddSet(own, of.elements); err != nil {
			return err
		}
		match[i] = &expr.Lookup{SourceRegister: lookup.SourceRegister, SetName: own.Name, SetID: own.ID}
	}
	s.conn.AddRule(&nftables.Rule{
		Table:    tableOf(c.family),
		Chain:    &nftables.Chain{Name: c.name, Table: tableOf(c.family)},
		Exprs:    append(match, r.then...),
		UserData: userdata.AppendString(nil, userdata.Type(userdata.TypeComment), r.comment()),
	})
	return nil
}

// withdraw removes pieces in one transaction, and the tables if no others are left.
func (h *host) withdraw(names ...string) error {
	s, err := h.rules()
	if err != nil || len(s.families) == 0 {
		return err
	}
	defer h.transact(s)()
	goes := func(name string) bool { return slices.Contains(names, pieceOwner(name)) }
	if !slices.ContainsFunc(s.chains,
		func(c *nftables.Chain) bool { return pieceOwner(c.Name) != "" && !goes(c.Name) }) {
		for _, f := range s.families {
			s.conn.DelTable(tableOf(f))
		}
		h.step("take the tables of rules away")
		return s.conn.Flush()
	}
	something := false
	for _, e := range s.entries {
		if goes(e.chain) || slices.ContainsFunc(names, func(name string) bool {
			return strings.TrimRight(string(e.key),
				"\x00") == name
		}) {
			something = true
			in := &nftables.Set{
				Table: tableOf(familyOf(e.in)), Name: e.in, IsMap: true, KeyType: maps()[e.in],
				DataType: nftables.TypeVerdict,
			}
			if err := s.conn.SetDeleteElements(in, []nftables.SetElement{{Key: e.key}}); err != nil {
				return err
			}
		}
	}
	// A chain cannot be deleted while another jumps to it.
	for _, then := range []func(*nftables.Chain){s.conn.FlushChain, s.conn.DelChain} {
		for _, c := range s.chains {
			if goes(c.Name) {
				something = true
				then(&nftables.Chain{Name: c.Name, Table: c.Table})
			}
		}
	}
	for _, c := range s.counters {
		if goes(c.Name) {
			something = true
			s.conn.DeleteObject(c)
		}
	}
	if !something {
		return nil
	}
	h.step("take rules away")
	return s.conn.Flush()
}

// remedy returns a command that deletes a chain and the map entries that lead to it. It fails while a rule of another
// chain jumps there.
func (s *state) remedy(c *nftables.Chain) string {
	var all []string
	for _, e := range s.entries {
		if e.chain != c.Name || familyOf(e.in) != c.Table.Family {
			continue
		}
		key := strings.TrimRight(string(e.key), "\x00")
		if a, ok := netip.AddrFromSlice(e.key); ok && maps()[e.in] != nftables.TypeIFName {
			key = a.String()
		}
		all = append(all,
			fmt.Sprintf("delete element %s %s %s { %s }", familyName(c.Table.Family), tableName, e.in, key))
	}
	for _, verb := range []string{"flush", "delete"} {
		all = append(all, fmt.Sprintf("%s chain %s %s %s", verb, familyName(c.Table.Family), tableName, c.Name))
	}
	return sal.Command("nft", strings.Join(all, "; "))
}

// packets returns the counters of a device.
func (h *host) packets(device string) (denied, spoofed int64, err error) {
	s, err := h.rules()
	if err != nil {
		return 0, 0, err
	}
	for _, c := range s.counters {
		count, ok := c.Obj.(*expr.Counter)
		switch {
		case !ok:
		case c.Name == deniedCounter(device):
			denied += int64(count.Packets)
		case c.Name == spoofedCounter(device):
			spoofed += int64(count.Packets)
		}
	}
	return denied, spoofed, nil
}
