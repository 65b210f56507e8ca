package netdev

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"writ"
	"writ/sal"
)

// repaired records a difference that is being repaired.
func (h *host) repaired(format string, args ...any) {
	h.drift = append(h.drift, sal.Drift{What: fmt.Sprintf(format, args...), Mended: true})
}

// link returns a link by its name, or nil.
func (h *host) link(name string) (netlink.Link, error) {
	l, err := h.kernel.LinkByName(name)
	if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone {
		return nil, nil
	}
	return l, err
}

// ours returns the link of a UID, or nil. It removes a link with our alias that has another type or UID. It returns an
// error for a link without our alias: another program created it.
func (h *host) ours(name, kind string, uid writ.UID) (netlink.Link, error) {
	l, err := h.link(name)
	if err != nil || l == nil {
		return nil, err
	}
	if !strings.HasPrefix(l.Attrs().Alias, aliasPrefix) {
		return nil, writ.Errorf(writ.CodeResourceConflict,
			"the node has an interface %s of type %s, which writ did not create", name, l.Type()).
			WithHint("inspect it with `ip -d link show %s`; if it is unused: `ip link delete %s`", name, name)
	}
	if l.Type() == kind && l.Attrs().Alias == alias(uid) {
		return l, nil
	}
	return nil, h.removeLink(name)
}

// removeLink removes a link if it exists and has our alias.
func (h *host) removeLink(name string) error {
	l, err := h.link(name)
	if err != nil || l == nil || !strings.HasPrefix(l.Attrs().Alias, aliasPrefix) {
		return err
	}
	h.step("delete the link " + name)
	return ignoring(h.kernel.LinkDel(l), unix.ENODEV)
}

// temporaryName returns the name of a link before it has our alias. Only this driver uses such names.
func temporaryName(name string) string { return "w" + name }

// createLink creates a link. It sets the final name only after the alias, so that a link with this name always has our
// alias.
func (h *host) createLink(l netlink.Link, uid writ.UID) (netlink.Link, error) {
	name := l.Attrs().Name
	if err := h.removeTemporary(name); err != nil {
		return nil, err
	}
	l.Attrs().Name = temporaryName(name)
	h.step("make the link " + name)
	if err := h.kernel.LinkAdd(l); err != nil {
		return nil, err
	}
	made, err := h.kernel.LinkByName(temporaryName(name))
	if err != nil {
		return nil, err
	}
	h.step("mark the link " + name)
	if err := h.kernel.LinkSetAlias(made, alias(uid)); err != nil {
		return nil, err
	}
	h.step("name the link " + name)
	if err := h.kernel.LinkSetName(made, name); err != nil {
		return nil, err
	}
	return h.kernel.LinkByIndex(made.Attrs().Index)
}

// removeTemporary removes a link that an interrupted createLink left.
func (h *host) removeTemporary(name string) error {
	l, err := h.link(temporaryName(name))
	if err != nil || l == nil {
		return err
	}
	h.step("delete the unfinished link " + name)
	return ignoring(h.kernel.LinkDel(l), unix.ENODEV)
}

// shape is the desired configuration of a link.
type shape struct {
	master int // index of its bridge, 0 for none
	mac    net.HardwareAddr
	silent bool // without an IPv6 address: it is the host end of a guest's link
}

// applyShape configures a link and sets it up.
func (h *host) applyShape(kernel *netlink.Handle, l netlink.Link, want shape) error {
	a := l.Attrs()
	if want.mac != nil && !bytes.Equal(a.HardwareAddr, want.mac) {
		h.step("set the hardware address of " + a.Name)
		h.repaired("%s had the hardware address %s", a.Name, a.HardwareAddr)
		if err := kernel.LinkSetHardwareAddr(l, want.mac); err != nil {
			return err
		}
	}
	if a.MTU != MTU {
		h.step("set the MTU of " + a.Name)
		h.repaired("%s had an MTU of %d bytes", a.Name, a.MTU)
		if err := kernel.LinkSetMTU(l, MTU); err != nil {
			return err
		}
	}
	if a.Flags&net.FlagUp != 0 && a.MasterIndex == want.master {
		return nil
	}
	if want.silent {
		h.step("keep " + a.Name + " without addresses")
		if err := ignoring(kernel.LinkSetIP6AddrGenMode(l, nl.IN6_ADDR_GEN_MODE_NONE), unix.EAFNOSUPPORT); err != nil {
			return err
		}
	}
	if a.MasterIndex != want.master {
		h.step("put " + a.Name + " on its bridge")
		h.repaired("%s was not on its bridge", a.Name)
		if err := kernel.LinkSetMasterByIndex(l, want.master); err != nil {
			return err
		}
	}
	if a.Flags&net.FlagUp == 0 {
		h.step("set " + a.Name + " up")
		h.repaired("%s was down", a.Name)
		return kernel.LinkSetUp(l)
	}
	return nil
}

// address gives a link exactly the addresses in want, in addition to link-local addresses.
func (h *host) address(kernel *netlink.Handle, l netlink.Link, want ...netip.Prefix) error {
	there, err := kernel.AddrList(l, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	var have []netip.Prefix
	for _, a := range there {
		p := prefixOf(a.IPNet)
		switch {
		case p.Addr().IsLinkLocalUnicast():
		case slices.Contains(want, p):
			have = append(have, p)
		default:
			h.step("take an address from " + l.Attrs().Name)
			h.repaired("%s had the address %s", l.Attrs().Name, p)
			if err := ignoring(kernel.AddrDel(l, &a), unix.EADDRNOTAVAIL); err != nil {
				return err
			}
		}
	}
	for _, p := range want {
		if !p.IsValid() || slices.Contains(have, p) {
			continue
		}
		h.step("give an address to " + l.Attrs().Name)
		h.repaired("%s lacked the address %s", l.Attrs().Name, p)
		a := &netlink.Addr{IPNet: netOf(p)}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD // the records prevent duplicates
		}
		if err := kernel.AddrReplace(l, a); err != nil {
			return err
		}
	}
	return nil
}

// setting writes a kernel setting, unless it has that value.
func (h *host) setting(path, value string) error {
	now, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(now)) == value {
		return err
	}
	h.step("set " + path)
	return os.WriteFile(path, []byte(value), 0o644)
}

// forwarding makes this host a router. A router ignores router advertisements by default, so it keeps them enabled on
// interfaces that accepted them before.
func (h *host) forwarding(v4 bool) error {
	const all = "/proc/sys/net/ipv6/conf/all/forwarding"
	now, err := os.ReadFile(all)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(now)) == "0" {
		links, err := h.kernel.LinkList()
		if err != nil {
			return err
		}
		for _, l := range links {
			accept := "/proc/sys/net/ipv6/conf/" + l.Attrs().Name + "/accept_ra"
			if heard, err := os.ReadFile(accept); err != nil || strings.TrimSpace(string(heard)) != "1" {
				continue
			}
			if err := h.setting(accept, "2"); err != nil {
				return err
			}
		}
	}
	if err := h.setting(all, "1"); err != nil || !v4 {
		return err
	}
	return h.setting("/proc/sys/net/ipv4/ip_forward", "1")
}

// ignoring returns err unless it is one of these.
func ignoring(err error, these ...error) error {
	if slices.ContainsFunc(these, func(e error) bool { return errors.Is(err, e) }) {
		return nil
	}
	return err
}

func netOf(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func prefixOf(n *net.IPNet) netip.Prefix {
	addr, _ := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), ones)
}
