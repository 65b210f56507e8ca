package firewall

import (
	"errors"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// TryRules creates a chain in each table, with the expressions that may need separate kernel modules. It returns an
// error if the kernel does not support them. Call it in a temporary network namespace.
func TryRules() error {
	return try(func(conn *nftables.Conn) {
		for _, family := range families() {
			table := conn.AddTable(tableOf(family))
			chain := conn.AddChain(&nftables.Chain{
				Name: "c", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward,
				Priority: nftables.ChainPriorityFilter,
			})
			exprs := []expr.Any{load(expr.MetaKeyIIFNAME), &expr.Counter{}} // for bridges, load needs a separate module
			if family == inet {
				exprs = []expr.Any{&expr.Ct{Register: register, Key: expr.CtKeySTATE}, &expr.Counter{}}
			}
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
			conn.AddObj(&nftables.NamedObj{
				Table: table, Name: "n", Type: nftables.ObjTypeCounter, Obj: &expr.Counter{},
			})
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: drop("n")})
		}
	})
}

// TryTranslation is like TryRules for a chain that translates source addresses and a chain that translates
// destinations.
func TryTranslation() error {
	return try(func(conn *nftables.Conn) {
		table := conn.AddTable(tableOf(inet))
		chain := conn.AddChain(&nftables.Chain{
			Name: "c", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting,
			Priority: nftables.ChainPriorityNATSource,
		})
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Masq{}}})
		chain = conn.AddChain(&nftables.Chain{
			Name: "d", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting,
			Priority: nftables.ChainPriorityNATDest,
		})
		to := translate(expr.NATTypeDestNAT, unix.NFPROTO_IPV4, netip.IPv4Unspecified(), 1)
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: to})
	})
}

// try executes the transaction that collect fills.
func try(collect func(*nftables.Conn)) error {
	conn, err := connect()
	if err != nil {
		return err
	}
	collect(conn)
	return errors.Join(conn.Flush(), conn.CloseLasting())
}
