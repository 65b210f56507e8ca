package coordinatord

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"writ"
	"writ/internal/reach"
)

// publicAddress compares the public URL of a coordinator with its listener.
type publicAddress struct {
	url    string // of --public-url, or "" if it was not given
	listen netip.AddrPort
	secure bool // it speaks TLS
}

// newPublicAddress returns the publicAddress of a URL and a listener. If the listener has no IP address, the result has
// no URL, so that check accepts every URL.
func newPublicAddress(publicURL string, listener net.Addr, secure bool) publicAddress {
	at, err := netip.ParseAddrPort(listener.String())
	if err != nil {
		return publicAddress{}
	}
	return publicAddress{publicURL, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), secure}
}

// check rejects a URL that leads to the listener with the wrong scheme. Any other URL may be the address of a proxy.
// `own` reports whether an address belongs to this host.
func (p publicAddress) check(own func(netip.Addr) bool) error {
	u, err := url.Parse(p.url)
	if p.url == "" || err != nil || !p.leadsHere(u, own) {
		return nil
	}
	switch {
	case u.Scheme == "http" && p.secure:
		return writ.Errorf(writ.CodeUsage, "the coordinator listens at --public-url %s with TLS",
			p.url).
			WithHint("use https:// in --public-url, or leave it out")
	case u.Scheme == "https" && !p.secure:
		return writ.Errorf(writ.CodeUsage,
			"the coordinator listens at --public-url %s without TLS, because the roster has no https:// address for it", p.url).
			WithHint("use http:// in --public-url, or give the coordinator an address with TLS: `writ coordinator add`")
	}
	return nil
}

// leadsHere reports whether a URL leads to the listener.
func (p publicAddress) leadsHere(u *url.URL, own func(netip.Addr) bool) bool {
	standard := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if cmp.Or(u.Port(), standard) != strconv.Itoa(int(p.listen.Port())) {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() == "localhost" {
		ip, err = netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	if err != nil { // a name may lead to a proxy
		return false
	}
	return ip.Unmap() == p.listen.Addr() || p.listen.Addr().IsUnspecified() && own(ip)
}

// misleads reports whether the URL is a loopback address although the listener accepts connections from other machines.
// Clients there would connect to their own machine.
func (p publicAddress) misleads() bool {
	u, err := url.Parse(p.url)
	return p.url != "" && err == nil && reach.Loopback(u.Hostname()) && !p.listen.Addr().IsLoopback()
}

// ownAddress reports whether an address belongs to this host.
func ownAddress(ip netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr() == ip {
			return true
		}
	}
	return false
}
