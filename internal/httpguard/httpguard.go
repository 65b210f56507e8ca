// Package httpguard keeps web pages of strangers from using an operator's browser as a client of a server inside: by a name of their own
// that they let point here (DNS rebinding), or by requests from their own origin (CSRF). Every HTTP listener of writ has one, wherever it
// listens. It must not know what is served.
package httpguard

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"

	"writ"
)

// Guard knows the names of a server.
type Guard struct {
	// Names are the hosts by which it may be reached, or its addresses as URLs, besides those that are always possible: loopback, the name
	// of this machine, and every IP address, which nobody else can let point elsewhere.
	Names []string
	// Hint says how a name is added.
	Hint string
}

// Check returns why a request is refused, nil if it is not: HOST_UNKNOWN if it is for a name that the server does not have, ORIGIN_FOREIGN
// if a page of another site made a browser send it. A link on such a page may still be followed: that only shows something.
func (g *Guard) Check(r *http.Request) error {
	if !g.knows(hostOf(r.Host)) {
		return writ.Errorf(writ.CodeHostUnknown, "this server is not called %q", r.Host).WithHint("%s", g.Hint)
	}
	if g.crossOrigin(r) {
		return writ.Errorf(writ.CodeOriginForeign, "a page of another site made the browser send this").
			WithHint("open the address itself; pages of other sites may link here and nothing else")
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
	for _, name := range g.Names {
		if host != "" && host == hostOf(name) {
			return true
		}
	}
	return false
}

// crossOrigin reports whether a page of another site sent a request. Programs send neither header.
func (g *Guard) crossOrigin(r *http.Request) bool {
	if origins, ok := r.Header["Origin"]; ok {
		if len(origins) != 1 {
			return true
		}
		u, err := url.Parse(origins[0])
		if err != nil || u.Host == "" { // "null" too
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

// named reports whether an origin is one of the addresses of the server: a proxy may have given it another Host.
func (g *Guard) named(origin *url.URL) bool {
	for _, name := range g.Names {
		if u, err := url.Parse(name); err == nil && u.Host != "" && u.Scheme == origin.Scheme && strings.EqualFold(u.Host, origin.Host) {
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

// machine is the name of this machine.
var machine = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return strings.ToLower(name)
})
