// Package limit bounds what one of many may ask for in a second, and have logged, so that something is left for others.
package limit

import (
	"net/netip"
	"time"
)

// Addresses bounds the requests of each remote address, or network of IPv6: so many a second, and twice as many at once. Set PerSecond before
// its use.
type Addresses struct {
	PerSecond float64

	rates rates
}

// NetworkOf returns the network that a remote address ("host:port") belongs to: an IPv4 address, or the first half of an IPv6 one, which one host
// may have all of.
func NetworkOf(remote string) string {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip, bits := from.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	network, _ := ip.Prefix(bits) // fails for a number of bits that the address does not have
	return network.String()
}

// Take takes a request of an address ("host:port") into account, which counts as so many. It returns 0, or how long to wait before the next.
func (l *Addresses) Take(remote string, cost int, now time.Time) time.Duration {
	wait, _ := l.rates.reserve(NetworkOf(remote), l.PerSecond, int(2*l.PerSecond)+1, cost, 0, now)
	return wait
}
