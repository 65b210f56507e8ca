package mycelium

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"writ"
)

// MTU is the MTU of the overlay and of the daemon's tunnel, in bytes. Peers connected by TCP carry such packets
// unfragmented.
const MTU = 1400

// CheckPeers rejects peers that the daemon does not accept, cannot connect to, or would lose packets with (QUIC). Some
// of these peers make the daemon exit at every start.
func CheckPeers(peers []string) error {
	for _, peer := range peers {
		if err := checkPeer(peer); err != nil {
			return err
		}
	}
	return nil
}

func checkPeer(peer string) error {
	const hint = "write it as tcp://192.0.2.7:9651 or tcp://[2001:db8::7]:9651; host names are not supported"
	proto, at, _ := strings.Cut(peer, "://")
	if proto == "vsock" { // CID:PORT
		if _, err := fmt.Sscanf(at+" ", "%d:%d ", new(uint32), new(uint32)); err != nil {
			return writ.Errorf(writ.CodeUsage, "%q is not a peer of mycelium", peer).
				WithHint("write it as vsock://2:9651, context and port")
		}
		return nil
	}
	address, err := netip.ParseAddrPort(at)
	if err != nil || address.Port() == 0 || !slices.Contains([]string{"tcp", "quic", "tls"}, proto) {
		return writ.Errorf(writ.CodeUsage, "%q is not a peer of mycelium", peer).WithHint(hint)
	}
	tcp := "tcp://" + at
	switch zone := address.Addr().Zone(); {
	case proto == "quic":
		return writ.Errorf(writ.CodeUsage,
			"the peer %s uses QUIC, which loses packets of 1388 bytes and more, and networks have an MTU of %d",
			peer, MTU).
			WithHint("use %s: daemons listen for both on the same port", tcp)
	case proto == "tls":
		return writ.Errorf(writ.CodeUsage, "the peer %s uses TLS, which is only for private networks of mycelium",
			peer).
			WithHint("use %s: the overlay encrypts its packets end to end", tcp)
	case strings.ContainsFunc(zone, func(r rune) bool { return r < '0' || r > '9' }):
		return writ.Errorf(writ.CodeUsage, "the peer %s names the interface %s, and mycelium exits with such a peer",
			peer, zone).
			WithHint("omit the peer: daemons on one wire discover each other; or use the interface's number, which `ip link` shows")
	}
	return nil
}
