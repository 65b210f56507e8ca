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

// allowed reports whether images may be fetched from an address, and whether only the operator's word allows it.
func (d *Driver) allowed(a netip.Addr) (ok, inside bool) {
	outside := reach.Allowed(a, nil)
	ok = outside || reach.Allowed(a, d.Allow)
	return ok, ok && !outside
}

// errRefused is that of an address from which images may not be fetched.
var errRefused = errors.New("images may not be fetched from this address")

// errNoAddress is that of a name without any address from which images may be fetched, whatever the reason is.
var errNoAddress = errors.New("the name has no address from which images may be fetched")

// perAddress is how long one address may take to answer.
const perAddress = 10 * time.Second

// dial connects to a server. Names are looked up here and addresses are compared right before they are used, so no answer of a name server
// and no redirect leads elsewhere. It says first whether what comes next happens inside the operator's own network.
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

// addresses looks a name up, unless it is an address.
func (d *Driver) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if d.lookup != nil {
		return d.lookup(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// connect opens a connection to an address, which the kernel is asked for in the very form that was allowed.
func (d *Driver) connect(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{Timeout: perAddress, Control: d.control}
	if d.reach != nil {
		return d.reach(ctx, &dialer, to)
	}
	return dialer.DialContext(ctx, network, to.String())
}

// control is asked by net.Dialer with the address that a socket is about to be connected to.
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
