// Package httpguard prevents foreign web pages from using an operator's browser as a client of an internal server. It
// refuses requests to a foreign host name that resolves to the server (DNS rebinding) and cross-site requests (CSRF).
// Every HTTP listener of writ has a guard, regardless of its address. The package does not depend on the content of the
// server.
package httpguard

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"writ"
)

// Guard holds the names of a server.
type Guard struct {
	// Names lists further hosts of the server, as names or URLs. Loopback, the name of this machine and every IP
	// address are always accepted: an attacker cannot redirect an IP address.
	Names []string
	// Hint explains how to add a name.
	Hint string
}

// Check returns nil if a request is acceptable. The error is HOST_UNKNOWN for a host name of another server, and
// ORIGIN_FOREIGN for a request that a page of another site caused. Such a page may still link to the server, because a
// link only shows a page.
func (g *Guard) Check(r *http.Request) error {
	if !g.knows(hostOf(r.Host)) {
		return writ.Errorf(writ.CodeHostUnknown, "this server does not have the name %q", r.Host).WithHint("%s", g.Hint)
	}
	if g.crossOrigin(r) {
		return writ.Errorf(writ.CodeOriginForeign, "a page of another site made the browser send this").
			WithHint("open the address itself; pages of other sites may only link here")
	}
	return nil
}

// knows reports whether a host is a name of the server.
func (g *Guard) knows(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || host != "" && host == machine() {
		return true
	}
	return host != "" && slices.ContainsFunc(g.Names, func(name string) bool { return host == hostOf(name) })
}

// crossOrigin reports whether a page of another site sent a request. Clients other than browsers send neither the
// header Origin nor Sec-Fetch-Site.
func (g *Guard) crossOrigin(r *http.Request) bool {
	if origins, ok := r.Header["Origin"]; ok {
		if len(origins) != 1 {
			return true
		}
		u, err := url.Parse(origins[0])
		if err != nil || u.Host == "" { // including "null"
			return true
		}
		return !strings.EqualFold(u.Host, r.Host) && !g.named(u)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	return !(reading && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document")
}

// named reports whether an origin is one of the server's URLs. A proxy may have changed the Host header.
func (g *Guard) named(origin *url.URL) bool {
	for _, name := range g.Names {
		if u, err := url.Parse(name); err == nil && u.Host != "" && u.Scheme == origin.Scheme &&
			strings.EqualFold(u.Host, origin.Host) {
			return true
		}
	}
	return false
}

// hostOf returns the host of a Host header, an address or a URL, in lower case.
func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		address = u.Host
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// machine returns the name of this machine.
var machine = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return strings.ToLower(name)
})
