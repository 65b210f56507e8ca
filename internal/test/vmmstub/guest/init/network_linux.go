package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seed is the content of a NoCloud disk, as far as it is used.
type seed struct {
	Name    string
	Network network
}

// network is the format of netplan (version 2), as JSON, which is valid YAML.
type network struct {
	Ethernets map[string]struct {
		Match struct {
			MAC string `json:"macaddress"`
		} `json:"match"`
		MTU       int      `json:"mtu"`
		Addresses []string `json:"addresses"`
		Routes    []struct {
			To  string `json:"to"`
			Via string `json:"via"`
		} `json:"routes"`
	} `json:"ethernets"`
}

// configure sets the addresses of the guest from the command line or from its seed, and returns its name.
func configure(command map[string]string) (string, error) {
	for _, conf := range []string{"all", "default"} {
		// The address is unique; duplicate detection would only take time.
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+conf+"/accept_dad", []byte("0"), 0)
	}
	if address := command["writ.address"]; address != "" {
		links, err := waitFor("/sys/class/net/eth*")
		if err != nil {
			return "guest", err
		}
		link := filepath.Base(links[0])
		if err := setUp(link, 0); err != nil {
			return "guest", err
		}
		if err := addAddress(link, address); err != nil {
			return "guest", err
		}
		if via := command["writ.gateway"]; via != "" {
			return "guest", addRoute(link, "::/0", via)
		}
		return "guest", nil
	}
	s, err := readSeed()
	if err != nil {
		return "guest", err
	}
	return s.Name, s.Network.apply()
}

// readSeed finds and reads a disk with NoCloud files.
func readSeed() (seed, error) {
	s := seed{Name: "guest"}
	disks, _ := filepath.Glob("/dev/vd?")
	for _, disk := range disks {
		if unix.Mount(disk, "/mnt", "vfat", unix.MS_RDONLY|unix.MS_SILENT, "") != nil {
			continue // another disk
		}
		found, err := s.read("/mnt")
		if err := errors.Join(err, unix.Unmount("/mnt", 0)); err != nil || found {
			return s, err
		}
	}
	return s, nil
}

func (s *seed) read(dir string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(dir, "meta-data"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var meta struct {
		Name string `json:"local-hostname"`
	}
	if err = errors.Join(err, json.Unmarshal(text, &meta)); err != nil {
		return false, fmt.Errorf("read meta-data: %w", err)
	}
	if meta.Name != "" {
		s.Name = meta.Name
	}
	text, err = os.ReadFile(filepath.Join(dir, "network-config"))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err = errors.Join(err, json.Unmarshal(text, &s.Network)); err != nil {
		return false, fmt.Errorf("read network-config: %w", err)
	}
	return true, nil
}

// apply configures each link that the configuration names by its hardware address.
func (n network) apply() error {
	for _, e := range n.Ethernets {
		link, err := linkOf(e.Match.MAC)
		if err != nil {
			return err
		}
		if err := setUp(link, e.MTU); err != nil {
			return err
		}
		for _, address := range e.Addresses {
			if err := addAddress(link, address); err != nil {
				return err
			}
		}
		for _, route := range e.Routes {
			if err := addRoute(link, route.To, route.Via); err != nil {
				return err
			}
		}
		say("%s has %s", link, strings.Join(e.Addresses, " "))
	}
	return nil
}

func linkOf(mac string) (string, error) {
	if _, err := waitFor("/sys/class/net/eth*"); err != nil {
		return "", err
	}
	links, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, l := range links {
		if strings.EqualFold(l.HardwareAddr.String(), mac) {
			return l.Name, nil
		}
	}
	return "", fmt.Errorf("no link has the hardware address %s", mac)
}

// control makes a network ioctl request on a socket of a family.
func control(family int, request uint, argument unsafe.Pointer) error {
	s, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), uintptr(request), uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

func setUp(link string, mtu int) error {
	request, err := unix.NewIfreq(link)
	if err != nil {
		return err
	}
	if mtu > 0 {
		request.SetUint32(uint32(mtu))
		if err := control(unix.AF_INET, unix.SIOCSIFMTU, unsafe.Pointer(request)); err != nil {
			return fmt.Errorf("set the MTU of %s: %w", link, err)
		}
	}
	request.SetUint16(unix.IFF_UP)
	if err := control(unix.AF_INET, unix.SIOCSIFFLAGS, unsafe.Pointer(request)); err != nil {
		return fmt.Errorf("set %s up: %w", link, err)
	}
	return nil
}

func addAddress(link, text string) error {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return err
	}
	i, err := net.InterfaceByName(link)
	if err != nil {
		return err
	}
	if prefix.Addr().Is4() {
		return addAddress4(link, prefix)
	}
	request := struct { // in6_ifreq
		address [16]byte
		bits    uint32
		index   int32
	}{prefix.Addr().As16(), uint32(prefix.Bits()), int32(i.Index)}
	if err := control(unix.AF_INET6, unix.SIOCSIFADDR, unsafe.Pointer(&request)); err != nil {
		return fmt.Errorf("give %s the address %s: %w", link, text, err)
	}
	return nil
}

func addAddress4(link string, prefix netip.Prefix) error {
	for _, set := range []struct {
		request uint
		value   []byte
	}{{unix.SIOCSIFADDR, prefix.Addr().AsSlice()}, {unix.SIOCSIFNETMASK, net.CIDRMask(prefix.Bits(), 32)}} {
		request, err := unix.NewIfreq(link)
		if err != nil {
			return err
		}
		if err := request.SetInet4Addr(set.value); err != nil {
			return err
		}
		if err := control(unix.AF_INET, set.request, unsafe.Pointer(request)); err != nil {
			return fmt.Errorf("give %s the address %s: %w", link, prefix, err)
		}
	}
	return nil
}

func addRoute(link, to, via string) error {
	prefix, err := netip.ParsePrefix(to)
	if err != nil {
		return err
	}
	gateway, err := netip.ParseAddr(via)
	if err != nil {
		return err
	}
	i, err := net.InterfaceByName(link)
	if err != nil {
		return err
	}
	if gateway.Is4() {
		return addRoute4(prefix, gateway)
	}
	request := struct { // in6_rtmsg
		to, from, gateway [16]byte
		kind              uint32
		toBits, fromBits  uint16
		metric            uint32
		info              uint64
		flags             uint32
		index             int32
	}{
		to: prefix.Addr().As16(), gateway: gateway.As16(), toBits: uint16(prefix.Bits()), metric: 1,
		flags: unix.RTF_UP | unix.RTF_GATEWAY, index: int32(i.Index),
	}
	if err := control(unix.AF_INET6, unix.SIOCADDRT, unsafe.Pointer(&request)); err != nil {
		return fmt.Errorf("reach %s by %s: %w", to, via, err)
	}
	return nil
}

// socketAddress4 is a sockaddr_in.
type socketAddress4 struct {
	family  uint16
	port    uint16
	address [4]byte
	_       [8]byte
}

func addRoute4(to netip.Prefix, via netip.Addr) error {
	mask := [4]byte(net.CIDRMask(to.Bits(), 32))
	request := struct { // rtentry
		_                 uint64
		to, gateway, mask socketAddress4
		flags             uint16
		_                 int16
		_                 uint64
		_                 uintptr
		metric            int16
		device            uintptr
		mtu, window       uint64
		irtt              uint16
	}{
		to:      socketAddress4{family: unix.AF_INET, address: to.Addr().As4()},
		gateway: socketAddress4{family: unix.AF_INET, address: via.As4()},
		mask:    socketAddress4{family: unix.AF_INET, address: mask}, flags: unix.RTF_UP | unix.RTF_GATEWAY,
	}
	if err := control(unix.AF_INET, unix.SIOCADDRT, unsafe.Pointer(&request)); err != nil {
		return fmt.Errorf("reach %s by %s: %w", to, via, err)
	}
	return nil
}
