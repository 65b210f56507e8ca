package boot

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"writ"
)

// How long a nameserver and a server may take to answer a machine that looks why it cannot join.
const (
	lookUpWithin = 4 * time.Second
	dialWithin   = 3 * time.Second
)

// addressesTried bounds those of one name: who answers for a nameserver can tell as many as it likes.
const addressesTried = 8

// probe looks why servers do not answer. A runner says that they do not; a person who stands before the machine wants to know what to mend.
type probe struct {
	lookUp      func(ctx context.Context, host string) ([]string, error)
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
	nameservers func() []string // that are asked
}

// servers says why neither of the supervisors can be reached, or Redis. It returns nil if both can.
func (p *probe) servers(ctx context.Context, supervisors []string, redis string) error {
	var one, other error
	var both sync.WaitGroup
	both.Go(func() {
		one = oneOf(supervisors, func(at string) error { return p.server(ctx, "the supervisor", "writ.supervisor", at) })
	})
	both.Go(func() { other = p.server(ctx, "Redis", "writ.redis", redis) })
	both.Wait()
	return errors.Join(one, other)
}

// oneOf tries all at once, so that several that are silent take no longer than one. It returns nil if one works, and else the error of the last.
func oneOf(all []string, try func(string) error) error {
	errs := make([]error, len(all))
	var tried sync.WaitGroup
	for i, one := range all {
		tried.Go(func() { errs[i] = try(one) })
	}
	tried.Wait()
	if len(all) == 0 || slices.Contains(errs, nil) {
		return nil
	}
	return errs[len(errs)-1]
}

// ports are those of addresses without one.
var ports = map[string]string{"http": "80", "https": "443", "redis": "6379", "rediss": "6379"}

// server says why a server cannot be reached at a URL. A URL that leads to no host is the matter of others.
func (p *probe) server(ctx context.Context, what, setting, at string) error {
	u, err := url.Parse(at)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	hosts := []string{u.Hostname()}
	if _, err := netip.ParseAddr(hosts[0]); err != nil {
		if hosts, err = p.lookedUp(ctx, hosts[0]); err != nil {
			return p.unknown(what, setting, u.Hostname(), err)
		}
	}
	return oneOf(hosts[:min(len(hosts), addressesTried)], func(host string) error {
		return p.answers(ctx, what, setting, net.JoinHostPort(host, cmp.Or(u.Port(), ports[u.Scheme])))
	})
}

func (p *probe) lookedUp(ctx context.Context, host string) ([]string, error) {
	ctx, stop := context.WithTimeout(ctx, lookUpWithin)
	defer stop()
	return p.lookUp(ctx, host)
}

// unknown says why a name has no address.
func (p *probe) unknown(what, setting, host string, err error) error {
	servers := strings.Join(p.nameservers(), " ")
	e, ok := errors.AsType[*net.DNSError](err)
	switch {
	case servers == "":
		return writ.Errorf(writ.CodeUnreachable, "%s has the name %s, and this machine knows no nameserver", what, host).
			WithHint("have DHCP tell one, or name one with writ.nameserver")
	case ok && e.IsNotFound:
		return writ.Errorf(writ.CodeUnreachable, "%s has the name %s, which the nameservers %s do not know", what, host, servers).
			WithHint("correct the name in %s, or add it at the nameservers", setting)
	}
	return writ.Errorf(writ.CodeUnreachable, "%s has the name %s, and the nameservers %s do not answer", what, host, servers).
		WithHint("check that they run and that this network reaches them, or name others with writ.nameserver")
}

// answers says why no connection can be made to an address.
func (p *probe) answers(ctx context.Context, what, setting, at string) error {
	ctx, stop := context.WithTimeout(ctx, dialWithin)
	defer stop()
	conn, err := p.dial(ctx, "tcp", at)
	switch {
	case err == nil:
		return conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		return writ.Errorf(writ.CodeUnreachable, "%s does not listen at %s: the connection is refused", what, at).
			WithHint("start it there, or correct %s", setting)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return writ.Errorf(writ.CodeUnreachable, "there is no way to %s at %s: no route, or no machine with this address", what, at).
			WithHint("correct %s, or the gateway of this network", setting)
	}
	return writ.Errorf(writ.CodeUnreachable, "%s does not answer at %s within %s", what, at, dialWithin).
		WithHint("check that it runs, the address in %s, and routes and firewalls between", setting)
}
