// Package outbound has the parts of HTTP clients for servers that are not trusted. Its dialer connects to servers of
// images. Scripts and redirects choose these servers, so the dialer accepts only addresses on the internet and
// addresses that the operator permits. The package does not interpret requests.
package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"writ/internal/reach"
)

// Dialer connects to servers at permitted addresses: on the internet, or in the operator's ranges.
type Dialer struct {
	Allow []netip.Prefix // ranges in addition to the internet
	// Servers are hosts with their ports that the operator permits at any address.
	Servers []string
	Inside  func() // called before a connection to an address in the operator's own network; may be nil
	// Lookup and Reach replace name servers and networks in tests. They may be nil.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Reach  func(ctx context.Context, dialer *net.Dialer, to netip.AddrPort) (net.Conn, error)
}

// allowed reports whether an address is permitted, and whether only the operator's configuration permits it.
func (d Dialer) allowed(a netip.Addr) (ok, inside bool) {
	outside := reach.Allowed(a, nil)
	ok = outside || reach.Allowed(a, d.Allow)
	return ok, ok && !outside
}

// ErrRefused is the error for a forbidden address.
var ErrRefused = errors.New("images may not be fetched from this address")

// ErrAllRefused is the error for a name that has only forbidden addresses.
var ErrAllRefused = errors.New("all addresses of the name are forbidden")

// errNoAddress is the single error for names without a permitted address.
var errNoAddress = errors.New("the name has no address from which images may be fetched")

// dialTimeout limits the connection attempt to one address.
const dialTimeout = 10 * time.Second

// dial connects to a server. It resolves names itself and checks each address right before it connects, so neither DNS
// answers nor redirects can lead to a forbidden address.
func (d Dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return nil, err
	}
	if slices.Contains(d.Servers, address) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	}
	all, err := d.addresses(ctx, host)
	if err != nil {
		return nil, errors.Join(errNoAddress, err)
	}
	var failed error
	refused := 0
	for _, a := range all {
		ok, within := d.allowed(a)
		if !ok {
			refused++
			failed = errors.Join(failed, ErrRefused)
			continue
		}
		if within && d.Inside != nil {
			d.Inside()
		}
		conn, err := d.connect(ctx, network, netip.AddrPortFrom(reach.Plain(a), uint16(number)))
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	if refused > 0 && refused == len(all) {
		failed = ErrAllRefused
	}
	return nil, errors.Join(errNoAddress, failed)
}

// addresses resolves host unless it is an address.
func (d Dialer) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if d.Lookup != nil {
		return d.Lookup(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// connect opens a connection to exactly the address that was checked.
func (d Dialer) connect(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout, Control: d.control}
	if d.Reach != nil {
		return d.Reach(ctx, &dialer, to)
	}
	return dialer.DialContext(ctx, network, to.String())
}

// control checks the address of a socket right before a net.Dialer connects it.
func (d Dialer) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ok, _ := d.allowed(to.Addr()); !ok {
		return ErrRefused
	}
	return nil
}

// ErrInsecure is the error for a redirect from https to another scheme.
var ErrInsecure = errors.New("the server redirects to an address without https")

// ClosedAddress is the error for a URL with a forbidden literal address.
type ClosedAddress struct{ Host string }

func (c ClosedAddress) Error() string { return "images may not be fetched from the address " + c.Host }

// maxHeader limits the header of an answer, in bytes. Answers of registries and mirrors have some KiB.
const maxHeader = 64 << 10

// Transport returns a transport that connects only through dial, and does not reuse connections. It ignores the proxies
// of the environment, which could reach addresses that scripts may not reach.
func (d Dialer) Transport(authorities *x509.CertPool) *http.Transport {
	return &http.Transport{
		DialContext: d.dial, DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSHandshakeTimeout: dialTimeout,
		MaxResponseHeaderBytes: maxHeader,
		TLSClientConfig:        &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
	}
}

// Client returns a client that sends requests through `by`, which must be a transport of this dialer or wrap one. Its
// redirects lead only to permitted addresses.
func (d Dialer) Client(by http.RoundTripper) *http.Client {
	return &http.Client{
		Transport: Final(by),
		CheckRedirect: func(next *http.Request, before []*http.Request) error {
			if next.URL.Scheme != "https" {
				return ErrInsecure
			}
			if len(before) >= 10 {
				return errors.New("the server redirects too often")
			}
			return d.Permit(next.URL)
		},
	}
}

// Permit rejects URLs with a forbidden literal address. Names are checked when they are dialled, and the result is not
// revealed.
func (d Dialer) Permit(u *url.URL) error {
	a, err := netip.ParseAddr(u.Hostname())
	if err != nil || slices.Contains(d.Servers, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))) {
		return nil
	}
	if ok, _ := d.allowed(a); !ok {
		return ClosedAddress{a.String()}
	}
	return nil
}
