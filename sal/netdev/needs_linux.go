package netdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ/internal/netns"
)

// lookRights checks whether this process may create links, rules and namespaces in the driver's namespace.
func (d *Driver) lookRights(context.Context) (string, error) {
	if d.Netns != "" {
		back, err := netns.Enter(d.Netns)
		if err != nil {
			return "", fmt.Errorf("enter the network namespace %s: %w", d.Netns, err)
		}
		defer back()
	}
	const rights = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN // for links and rules; for namespaces
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return "", fmt.Errorf("read the capabilities of this process: %w", err)
	}
	if have[0].Effective&rights != rights {
		return "", fmt.Errorf("user %d has neither root's capabilities nor these", os.Geteuid())
	}
	return "CAP_NET_ADMIN, CAP_SYS_ADMIN", nil
}

// lookForwarding checks whether this process may enable packet forwarding. The driver enables it with the first
// network.
//
//failpoint:none it opens the file only to check access
func lookForwarding(context.Context) (string, error) {
	const all = "/proc/sys/net/ipv6/conf/all/forwarding"
	now, err := os.ReadFile(all)
	if err != nil {
		return "", fmt.Errorf("the kernel has no IPv6: %w", err)
	}
	f, err := os.OpenFile(all, os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	if strings.TrimSpace(string(now)) == "0" {
		return "off until the first network", nil
	}
	return "on", nil
}

// inNamespace runs try in a temporary network namespace.
func inNamespace(try func() error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		if err := netns.Aside(try); err != nil {
			return "", err
		}
		return "tried in a namespace", nil
	}
}

func tryLinks() error {
	for _, l := range []netlink.Link{
		&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "b"}},
		&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v"}, PeerName: "w"},
	} {
		if err := makeLink(l); err != nil {
			return fmt.Errorf("make a %s: %w", l.Type(), err)
		}
	}
	return nil
}

func tryTap() error {
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return err
	}
	return makeLink(&netlink.Tuntap{
		LinkAttrs: netlink.LinkAttrs{Name: "t"}, Mode: netlink.TUNTAP_MODE_TAP,
		Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR | netlink.TUNTAP_ONE_QUEUE,
	})
}

// makeLink creates a link in the namespace of this thread.
func makeLink(l netlink.Link) error {
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE) // a kernel may lack the other protocols
	if err != nil {
		return err
	}
	defer kernel.Close()
	return kernel.LinkAdd(l)
}

// tryRules creates a chain in each table family of the driver, with the expressions that may be kernel modules.
func tryRules() error {
	return transacted(func(conn *nftables.Conn) {
		for _, family := range families() {
			table := conn.AddTable(tableOf(family))
			chain := conn.AddChain(&nftables.Chain{
				Name: "c", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward,
				Priority: nftables.ChainPriorityFilter,
			})
			exprs := []expr.Any{load(expr.MetaKeyIIFNAME), &expr.Counter{}} // for bridges it is in a separate module
			if family == nftables.TableFamilyINet {
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

func tryMasquerade() error {
	return transacted(func(conn *nftables.Conn) {
		table := conn.AddTable(tableOf(nftables.TableFamilyINet))
		chain := conn.AddChain(&nftables.Chain{
			Name: "c", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting,
			Priority: nftables.ChainPriorityNATSource,
		})
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Masq{}}})
	})
}

// transacted executes a transaction.
func transacted(collect func(*nftables.Conn)) error {
	conn, err := batch()
	if err != nil {
		return err
	}
	collect(conn)
	return errors.Join(conn.Flush(), conn.CloseLasting())
}
