package netdev

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// shape is the desired configuration of a link.
type shape struct {
	master int // index of its bridge, 0 for none
	mac    net.HardwareAddr
	silent bool // without a link-local IPv6 address, as the host end of a guest's link
}

// apply configures a link and sets it up.
func (s links) apply(l netlink.Link, want shape) error {
	a := l.Attrs()
	if want.mac != nil && !bytes.Equal(a.HardwareAddr, want.mac) {
		s.step("set the hardware address of " + a.Name)
		s.repaired("%s had the hardware address %s", a.Name, a.HardwareAddr)
		if err := s.kernel.LinkSetHardwareAddr(l, want.mac); err != nil {
			return err
		}
	}
	if err := s.setMTU(l); err != nil {
		return err
	}
	if a.Flags&net.FlagUp != 0 && a.MasterIndex == want.master {
		return nil
	}
	if want.silent {
		s.step("keep " + a.Name + " without addresses")
		if err := ignoring(s.kernel.LinkSetIP6AddrGenMode(l, nl.IN6_ADDR_GEN_MODE_NONE), unix.EAFNOSUPPORT); err != nil {
			return err
		}
	}
	if a.MasterIndex != want.master {
		s.step("put " + a.Name + " on its bridge")
		s.repaired("%s", s.misplaced(a, want.master))
		if err := s.kernel.LinkSetMasterByIndex(l, want.master); err != nil {
			return err
		}
	}
	if a.Flags&net.FlagUp == 0 {
		s.step("set " + a.Name + " up")
		s.repaired("%s was down", a.Name)
		return s.kernel.LinkSetUp(l)
	}
	return nil
}

// setMTU sets the MTU of a link.
func (s links) setMTU(l netlink.Link) error {
	a := l.Attrs()
	if a.MTU == MTU {
		return nil
	}
	s.step("set the MTU of " + a.Name)
	s.repaired("%s had an MTU of %d bytes", a.Name, a.MTU)
	if err := s.kernel.LinkSetMTU(l, MTU); err != nil {
		return err
	}
	a.MTU = MTU
	return nil
}

// misplaced describes a link that is not attached to the link with index master. If master is 0, the link should not be
// attached to any other link.
func (s links) misplaced(a *netlink.LinkAttrs, master int) string {
	if master != 0 {
		return a.Name + " was not on its bridge"
	}
	other, err := s.kernel.LinkByIndex(a.MasterIndex)
	if err != nil {
		return a.Name + " belonged to another interface"
	}
	return a.Name + " belonged to the interface " + other.Attrs().Name
}

// setAddresses gives a link exactly the addresses in `want`, in addition to link-local addresses.
func (s links) setAddresses(l netlink.Link, want ...netip.Prefix) error {
	there, err := s.kernel.AddrList(l, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	var have []netip.Prefix
	for _, a := range there {
		p := prefixOf(a.IPNet)
		switch {
		case slices.Contains(want, p):
			have = append(have, p)
		case p.Addr().IsLinkLocalUnicast():
		default:
			s.step("remove an address from " + l.Attrs().Name)
			s.repaired("%s had the address %s", l.Attrs().Name, p)
			if err := ignoring(s.kernel.AddrDel(l, &a), unix.EADDRNOTAVAIL); err != nil {
				return err
			}
		}
	}
	for _, p := range want {
		if !p.IsValid() || slices.Contains(have, p) {
			continue
		}
		s.step("add an address to " + l.Attrs().Name)
		s.repaired("%s lacked the address %s", l.Attrs().Name, p)
		a := &netlink.Addr{IPNet: netOf(p)}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD // the records prevent duplicates
		}
		if err := s.kernel.AddrReplace(l, a); err != nil {
			return err
		}
	}
	return nil
}

// enableForwarding makes this host a router. A router ignores router advertisements by default, so they stay enabled on
// interfaces that accepted them before.
func (s links) enableForwarding(v4 bool) error {
	const all = "/proc/sys/net/ipv6/conf/all/forwarding"
	now, err := os.ReadFile(all)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(now)) == "0" {
		links, err := s.kernel.LinkList()
		if err != nil {
			return err
		}
		for _, l := range links {
			accept := "/proc/sys/net/ipv6/conf/" + l.Attrs().Name + "/accept_ra"
			if heard, err := os.ReadFile(accept); err != nil || strings.TrimSpace(string(heard)) != "1" {
				continue
			}
			if err := s.set(accept, "2"); err != nil {
				return err
			}
		}
	}
	if err := s.set(all, "1"); err != nil || !v4 {
		return err
	}
	return s.set("/proc/sys/net/ipv4/ip_forward", "1")
}

// ignoring returns nil if err is one of `these` errors, and err otherwise.
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
