package netdev

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ/internal/netns"
	"writ/sal/netdev/firewall"
)

// lookRights checks whether this process may create links and rules in a network namespace ("" means the current one),
// and create network namespaces.
func lookRights(namespace string) (string, error) {
	if namespace != "" {
		back, err := netns.Enter(namespace)
		if err != nil {
			return "", fmt.Errorf("enter the network namespace %s: %w", namespace, err)
		}
		defer back()
	}
	const rights = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN // for links and rules, and for namespaces
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

// inNamespace returns a check that runs try in a temporary network namespace.
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
	return makeLink(newTap(netlink.LinkAttrs{Name: "t"}))
}

// makeLink creates a link in the namespace of this thread.
func makeLink(l netlink.Link) error {
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE) // a kernel may lack other netlink protocols
	if err != nil {
		return err
	}
	defer kernel.Close()
	return kernel.LinkAdd(l)
}

func tryRules() error { return firewall.TryRules() }

func tryTranslation() error { return firewall.TryTranslation() }
