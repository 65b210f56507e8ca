package catalog

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// The functions of this file refuse values that have a valid form and no use. A signed script cannot be changed any more.

// isFileURL reports whether a URL names one file: no directory, no part of a file, no user and no impossible port.
func isFileURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.User != nil || u.Fragment != "" || strings.HasSuffix(s, "#") || u.Path == "" || strings.HasSuffix(u.Path, "/") {
		return false
	}
	if u.Scheme == "file" {
		return u.RawQuery == "" && !dotted.MatchString(u.Path)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if u.Port() != "" && (err != nil || port == 0) {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() != "" && (err != nil || !ip.IsUnspecified() && !ip.IsMulticast())
}

// sends reports whether packets can come from a range. Multicast and loopback addresses and the unspecified one never send across a
// network.
func sends(p netip.Prefix) bool {
	a := p.Addr()
	switch {
	case p.Bits() == 0:
		return true // all addresses
	case a.IsMulticast(), a.IsLoopback():
		return false
	}
	return !a.IsUnspecified() || p.Bits() < a.BitLen()
}
