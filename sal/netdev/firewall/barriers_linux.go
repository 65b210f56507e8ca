package firewall

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"writ/sal"
)

// barrier is a chain of another firewall that drops forwarded packets unless one of its rules accepts them. Docker and
// ufw set such a policy, and firewalld ends its chain with such a rule. An accept verdict of the chains of this package
// does not help, because a packet must pass the chains of all tables.
type barrier struct {
	chain *nftables.Chain
	user  string            // chain that remedy uses: the table's chain for rules of the operator, or else chain
	rules []*nftables.Rule  // of all chains in the same table
	names map[string][]byte // interfaces in the sets of the same table, NUL-terminated and concatenated, by set
}

// chainsOfUsers lists the chains that firewalls reserve for rules of operators.
var chainsOfUsers = []string{"DOCKER-USER", "ufw-user-forward", "ufw6-user-forward"}

// Barriers returns a drift for each firewall of the node that drops the packets of a network. v4 is true if the
// network has IPv4.
func Barriers(device string, v4 bool) (found []sal.Drift, err error) {
	all, err := barriers()
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		if b.chain.Table.Family == nftables.TableFamilyIPv4 && !v4 || b.mentions(device) {
			continue
		}
		found = append(found, sal.Drift{What: fmt.Sprintf("the chain %s drops packets of the network; allow them with `%s`",
			b, b.remedy(device))})
	}
	return found, nil
}

// barriers returns the barriers in the network namespace of this thread.
func barriers() (all []*barrier, err error) {
	conn, err := connect()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.CloseLasting() }()
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list chains: %w", err)
	}
	for _, c := range chains {
		if !filtersForwarded(c) {
			continue
		}
		rules, err := conn.GetRules(c.Table, c)
		if err != nil {
			return nil, fmt.Errorf("list the rules of the chain %s: %w", c.Name, err)
		}
		if !dropsTheRest(c, rules) {
			continue
		}
		b := &barrier{chain: c, user: c.Name, names: map[string][]byte{}}
		for _, other := range chains {
			if other.Table.Name != c.Table.Name || other.Table.Family != c.Table.Family {
				continue
			}
			if slices.Contains(chainsOfUsers, other.Name) {
				b.user = other.Name
			}
			rules, err := conn.GetRules(c.Table, other)
			if err != nil {
				return nil, fmt.Errorf("list the rules of the chain %s: %w", other.Name, err)
			}
			b.rules = append(b.rules, rules...)
		}
		if err := b.readSets(conn); err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// filtersForwarded reports whether a chain belongs to another program and filters the forwarded packets of networks.
func filtersForwarded(c *nftables.Chain) bool {
	switch c.Table.Family {
	case nftables.TableFamilyIPv4, nftables.TableFamilyIPv6, nftables.TableFamilyINet:
		return c.Table.Name != tableName && c.Hooknum != nil && *c.Hooknum == *nftables.ChainHookForward
	default:
		return false
	}
}

// dropsTheRest reports whether a chain drops the packets that its rules do not accept.
func dropsTheRest(c *nftables.Chain, rules []*nftables.Rule) bool {
	if c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop {
		return true
	}
	if len(rules) == 0 {
		return false
	}
	for _, e := range rules[len(rules)-1].Exprs {
		switch e := e.(type) {
		case *expr.Counter, *expr.Log, *expr.Limit:
		case *expr.Reject:
			return true
		case *expr.Verdict:
			return e.Kind == expr.VerdictDrop
		default:
			return false // a condition
		}
	}
	return false
}

// readSets reads the interfaces in the sets of the table.
func (b *barrier) readSets(conn *nftables.Conn) error {
	sets, err := conn.GetSets(b.chain.Table)
	if err != nil {
		return fmt.Errorf("list the sets of the table %s: %w", b.chain.Table.Name, err)
	}
	for _, s := range sets {
		if s.KeyType.Name != nftables.TypeIFName.Name {
			continue
		}
		elements, err := conn.GetSetElements(s)
		if err != nil {
			return fmt.Errorf("list the set %s: %w", s.Name, err)
		}
		for _, e := range elements {
			b.names[s.Name] = append(b.names[s.Name], append(bytes.TrimRight(e.Key, "\x00"), 0)...)
		}
	}
	return nil
}

// mentions reports whether a rule of the firewall matches packets of this device. In that case, the operator of the
// firewall has already decided about these packets.
func (b *barrier) mentions(device string) bool {
	for _, r := range b.rules {
		named := false // the register holds the name of an interface
		for _, e := range r.Exprs {
			switch e := e.(type) {
			case *expr.Meta:
				named = !e.SourceRegister && (e.Key == expr.MetaKeyIIFNAME || e.Key == expr.MetaKeyOIFNAME)
			case *expr.Cmp:
				if named && e.Op == expr.CmpOpEq && matches(e.Data, device) {
					return true
				}
			case *expr.Lookup:
				if named && bytes.Contains(append([]byte{0}, b.names[e.SetName]...), []byte("\x00"+device+"\x00")) {
					return true
				}
			}
		}
	}
	return false
}

// matches reports whether the operand of a comparison matches the name of a device. An operand without a NUL matches
// every name that begins with it.
func matches(operand []byte, device string) bool {
	name, _, whole := bytes.Cut(operand, []byte{0})
	if whole {
		return string(name) == device
	}
	return len(name) > 0 && bytes.HasPrefix([]byte(device), name)
}

// String returns the family, table and name of the chain, as arguments of nft.
func (b *barrier) String() string { return b.table() + " " + b.chain.Name }

func (b *barrier) table() string {
	family := map[nftables.TableFamily]string{
		nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6", nftables.TableFamilyINet: "inet",
	}[b.chain.Table.Family]
	return family + " " + b.chain.Table.Name
}

// remedy returns the command that makes the firewall accept packets of a device.
func (b *barrier) remedy(device string) string {
	if b.chain.Table.Name == "firewalld" { // firewalld overwrites changes by nft, and may deny them
		return "firewall-cmd --permanent --zone=trusted --add-interface=" + device + " && firewall-cmd --reload"
	}
	rule := "nft insert rule " + b.table() + " " + b.user
	return fmt.Sprintf("%s iifname %s accept && %s oifname %s accept", rule, device, rule, device)
}
