// Package limit limits the requests, connections and log lines of single clients, so that other clients get their
// share.
package limit

import (
	"net/netip"
	"time"
)

// Addresses limits the requests of each remote address (IPv6: network) to PerSecond, with bursts of twice that. Set
// PerSecond before use.
type Addresses struct {
	PerSecond float64

	rates rates
}

// NetworkOf returns the network of a remote address ("host:port"): the IPv4 address, or the /64 of an IPv6 address,
// because a single host may have a whole /64.
func NetworkOf(remote string) string {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip, bits := from.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	network, _ := ip.Prefix(bits) // fails only for an invalid number of bits
	return network.String()
}

// Take counts a request of an address ("host:port") with a cost. It returns 0 if the request is within the limit.
// Otherwise it does not count the request, and returns the time to wait before a retry.
func (l *Addresses) Take(remote string, cost int, now time.Time) time.Duration {
	wait, _ := l.rates.reserve(NetworkOf(remote), l.PerSecond, int(2*l.PerSecond)+1, cost, 0, now)
	return wait
}
