package netdev

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"writ"
	"writ/sal"
)

// marker is the value of the 16 bits after the host's /64 in all addresses on networks. Other addresses in this /64,
// such as the address of the host, almost never have this value there.
const marker = 0xff0f

// hash returns a digest of parts. Numbers and addresses are derived from it.
func hash(parts ...string) []byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p + "\x00"))
	}
	return h.Sum(nil)
}

// rangeOf returns the range of a network within the host's range.
func rangeOf(host netip.Prefix, index uint16) netip.Prefix {
	a := host.Addr().As16()
	binary.BigEndian.PutUint16(a[8:], marker)
	binary.BigEndian.PutUint16(a[10:], index)
	clear(a[12:])
	return netip.PrefixFrom(netip.AddrFrom16(a), 96)
}

// in returns the address of a network's range that has the given host part.
func in(network netip.Prefix, host uint32) netip.Addr {
	a := network.Addr().As16()
	binary.BigEndian.PutUint32(a[12:], host)
	return netip.AddrFrom16(a)
}

// gatewayHost is the host part of the gateway's address.
const gatewayHost = 1

// macOf returns the hardware address of a port: a unicast address that no vendor uses.
func macOf(owner, network writ.UID) net.HardwareAddr {
	mac := slices.Clone(hash("mac", string(owner), string(network))[:6])
	mac[0] = mac[0]&^1 | 2
	return mac
}

// freeIndex returns the number of a new network: the number derived from its project and name, or the next free number.
// It returns QUOTA_EXCEEDED if all numbers are taken.
func freeIndex(resource writ.ResourceID, taken func(uint16) bool) (uint16, error) {
	sum := hash("network", string(resource.Project), resource.Name)
	first := binary.BigEndian.Uint16(sum)
	for i := range uint32(1 << 16) {
		if index := first + uint16(i); !taken(index) {
			return index, nil
		}
	}
	return 0, writ.Errorf(writ.CodeQuotaExceeded, "this node has 65536 networks, the maximum")
}

// freeHost returns the host part of a new port's IPv6 address: the number derived from the owner's UID, or the next
// free number.
func freeHost(owner writ.UID, taken func(uint32) bool) uint32 {
	sum := hash("port", string(owner))
	for host := binary.BigEndian.Uint32(sum); ; host++ {
		if host > gatewayHost && host != 1<<32-1 && !taken(host) {
			return host
		}
	}
}

// freeIPv4 returns the address of a new port in a network's IPv4 range. The first address is reserved for the router.
// If all addresses are taken, it returns QUOTA_EXCEEDED.
func freeIPv4(
	network writ.ResourceID, prefix netip.Prefix, owner writ.UID, taken func(netip.Addr) bool,
) (netip.Addr, error) {
	if a, ok := sal.FreeIPv4(prefix, binary.BigEndian.Uint32(hash("port4", string(owner))), taken); ok {
		return a, nil
	}
	return netip.Addr{}, writ.Errorf(writ.CodeQuotaExceeded, "all %d addresses of %s on %s are in use",
		1<<(32-prefix.Bits())-3, prefix, network).
		WithHint("delete unused resources on the network, or create a network with a larger range")
}

// router returns the host's address in an IPv4 range, or the zero value without a range.
func router(prefix netip.Prefix) netip.Addr {
	if !prefix.IsValid() {
		return netip.Addr{}
	}
	return prefix.Addr().Next()
}

// subnetOf returns the host's range in the overlay, which is divided into networks.
func subnetOf(ctx context.Context, overlay sal.Overlay) (netip.Prefix, error) {
	if overlay == nil {
		return netip.Prefix{}, writ.Errorf(writ.CodeDriverMissing, "this node has no overlay to provide addresses")
	}
	subnet, err := overlay.Subnet(ctx)
	if err == nil && (subnet.Bits() != 64 || !subnet.Addr().Is6()) {
		err = fmt.Errorf("the overlay assigns %s, and networks need a /64", subnet)
	}
	if err != nil {
		return netip.Prefix{}, failed("read the node's address range", err)
	}
	return subnet, nil
}

// failed converts an error of the kernel or the disk to a *writ.Error. It returns DRIVER_REFUSED if rights are missing;
// see sal.HostError for all other errors.
func failed(doing string, err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return writ.Errorf(writ.CodeDriverRefused, "cannot %s: %w", doing, err).
			WithHint("run the node as root, or with CAP_NET_ADMIN and CAP_SYS_ADMIN")
	}
	return sal.HostError(doing, err)
}
