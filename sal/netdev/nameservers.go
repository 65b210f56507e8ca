package netdev

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// overlayRange is the range that is reached through the gateway of a network.
var overlayRange = netip.MustParsePrefix("400::/7")

// maxNameservers is the number of servers that a resolver uses: MAXNS of resolv.h.
const maxNameservers = 3

// HostNameservers returns the DNS servers of this host. It reads them each time. If the host uses a local resolver such
// as systemd-resolved, it returns the servers of that resolver.
func HostNameservers() []netip.Addr {
	return nameserversOf("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
}

// nameserversOf returns the servers of the first file, in the format of resolv.conf(5), that names a server on another
// host.
func nameserversOf(files ...string) []netip.Addr {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // an unreadable file counts as a file without servers
		}
		var all []netip.Addr
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 2 || fields[0] != "nameserver" {
				continue
			}
			if server, err := netip.ParseAddr(fields[1]); err == nil && CheckNameserver(server) == nil {
				all = append(all, server.Unmap())
			}
		}
		if len(all) > 0 {
			return all
		}
	}
	return nil
}

// CheckNameserver returns an error if a guest can never use an address as its nameserver.
func CheckNameserver(server netip.Addr) error {
	switch server := server.Unmap(); {
	case server.IsLoopback(), server.IsUnspecified():
		return errors.New("it is an address of the guest itself")
	case server.IsMulticast():
		return errors.New("it is a multicast address")
	}
	return nil
}

// reachableNameservers returns the servers that guests on a network can reach. It excludes servers on the node itself,
// because the node only answers ping requests of guests.
func reachableNameservers(servers, own []netip.Addr, v4 bool) []netip.Addr {
	var all []netip.Addr
	for _, server := range servers {
		server = server.Unmap()
		if CheckNameserver(server) != nil || slices.Contains(own, server) || slices.Contains(all, server) ||
			len(all) == maxNameservers {
			continue
		}
		if server.Is4() && v4 || overlayRange.Contains(server) {
			all = append(all, server)
		}
	}
	return all
}

// ownAddresses returns the addresses in the network namespace of this thread.
func ownAddresses() ([]netip.Addr, error) {
	there, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this host: %w", err)
	}
	var all []netip.Addr
	for _, a := range there {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, p.Addr())
		}
	}
	return all, nil
}

// lookNameservers lists the nameservers that guests get. It returns an error if guests get none.
func lookNameservers(nameservers func() []netip.Addr) (string, error) {
	if nameservers == nil {
		return "disabled by the configuration", nil
	}
	servers := nameservers()
	own, err := ownAddresses()
	if err != nil {
		return "", err
	}
	var found []string
	all, private := reachableNameservers(servers, own, false), reachableNameservers(servers, own, true)
	for _, server := range private {
		if slices.Contains(all, server) {
			found = append(found, server.String())
		} else {
			found = append(found, server.String()+" (networks with ipv4)")
		}
	}
	var beyond []string
	for _, server := range servers {
		if !slices.Contains(reachableNameservers([]netip.Addr{server}, own, true), server.Unmap()) {
			beyond = append(beyond, server.String())
		}
	}
	switch detail := strings.Join(found, ", "); {
	case len(servers) == 0:
		return "", errors.New("this host uses no nameserver on another host")
	case len(found) == 0:
		return "", fmt.Errorf("no network reaches %s", strings.Join(beyond, ", "))
	case len(beyond) > 0:
		return fmt.Sprintf("%s; no network reaches %s, so guests do not get it", detail,
			strings.Join(beyond, ", ")), nil
	default:
		return detail, nil
	}
}
