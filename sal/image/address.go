package image

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"writ/internal/reach"
)

// allowed reports whether images may be fetched from an address, and whether only the operator's configuration permits
// it.
func (d *Driver) allowed(a netip.Addr) (ok, inside bool) {
	outside := reach.Allowed(a, nil)
	ok = outside || reach.Allowed(a, d.Allow)
	return ok, ok && !outside
}

// errRefused is the error for an address from which images may not be fetched.
var errRefused = errors.New("images may not be fetched from this address")

// errNoAddress is the error for a name without a permitted address, whatever the cause.
var errNoAddress = errors.New("the name has no address from which images may be fetched")

// dialTimeout limits the connection attempt to one address.
const dialTimeout = 10 * time.Second

// dial connects to a server. It resolves names itself and checks each address right before it connects, so neither DNS
// answers nor redirects can lead to a forbidden address. It calls inside before it connects to an address in the
// operator's own network.
func (d *Driver) dial(ctx context.Context, network, address string, inside func()) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return nil, err
	}
	all, err := d.addresses(ctx, host)
	if err != nil {
		return nil, errors.Join(errNoAddress, err)
	}
	var failed error
	for _, a := range all {
		ok, within := d.allowed(a)
		if !ok {
			failed = errors.Join(failed, errRefused)
			continue
		}
		if within {
			inside()
		}
		conn, err := d.connect(ctx, network, netip.AddrPortFrom(reach.Plain(a), uint16(number)))
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, errors.Join(errNoAddress, failed)
}

// addresses resolves host unless it is an address.
func (d *Driver) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if d.lookup != nil {
		return d.lookup(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// connect opens a connection to exactly the address that was checked.
func (d *Driver) connect(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout, Control: d.control}
	if d.reach != nil {
		return d.reach(ctx, &dialer, to)
	}
	return dialer.DialContext(ctx, network, to.String())
}

// control checks the address to which a net.Dialer is about to connect a socket.
func (d *Driver) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ok, _ := d.allowed(to.Addr()); !ok {
		return errRefused
	}
	return nil
}
