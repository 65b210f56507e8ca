// Package reach diagnoses why a machine does not reach the servers of its datacenter: an unknown name, a silent
// nameserver, a refused connection, a missing route. Each error names the setting to correct. The package only
// resolves names and opens connections.
package reach

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"writ"
)

// Timeouts of the diagnosis.
const (
	lookUpWithin = 4 * time.Second
	dialWithin   = 3 * time.Second
)

// addressesTried limits the addresses per name. A nameserver can return any number.
const addressesTried = 8

// Probe diagnoses why servers do not answer. The runner only logs that they do not; a person at the machine needs the
// cause.
type Probe struct {
	lookUp      func(ctx context.Context, host string) ([]string, error)
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
	nameservers func() []string // returns the nameservers in use
}

// New returns a Probe of this machine. resolvConf is the file with its nameservers.
func New(resolvConf string) *Probe {
	return &Probe{
		lookUp: new(net.Resolver).LookupHost, dial: new(net.Dialer).DialContext,
		nameservers: func() []string { return nameserversOf(resolvConf) },
	}
}

// Servers returns an error if none of the supervisors is reachable, or if Redis is not.
func (p *Probe) Servers(ctx context.Context, supervisors []string, redis string) error {
	var one, other error
	var both sync.WaitGroup
	both.Go(func() {
		one = oneOf(supervisors,
			func(at string) error { return p.server(ctx, "the supervisor", "writ.supervisor", at) })
	})
	both.Go(func() { other = p.server(ctx, "Redis", "writ.redis", redis) })
	both.Wait()
	return errors.Join(one, other)
}

// oneOf tries all values concurrently, so that several silent servers take no longer than one server. It returns nil if
// `try` succeeds for any value or there are no values, and otherwise the error of the last value.
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

// ports holds the default ports by URL scheme.
var ports = map[string]string{"http": "80", "https": "443", "redis": "6379", "rediss": "6379"}

// server returns an error if the server at a URL is unreachable. It ignores URLs without a host, which other checks
// report.
func (p *Probe) server(ctx context.Context, what, setting, at string) error {
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

func (p *Probe) lookedUp(ctx context.Context, host string) ([]string, error) {
	ctx, stop := context.WithTimeout(ctx, lookUpWithin)
	defer stop()
	return p.lookUp(ctx, host)
}

// unknown returns the error for a name without an address.
func (p *Probe) unknown(what, setting, host string, err error) error {
	servers := strings.Join(p.nameservers(), " ")
	e, ok := errors.AsType[*net.DNSError](err)
	switch {
	case servers == "":
		return writ.Errorf(writ.CodeUnreachable, "%s has the name %s, and this machine has no nameserver", what, host).
			WithHint("configure one in DHCP, or set writ.nameserver")
	case ok && e.IsNotFound:
		return writ.Errorf(writ.CodeUnreachable, "%s has the name %s, which the nameservers %s do not know", what, host,
			servers).
			WithHint("correct the name in %s, or add it at the nameservers", setting)
	}
	return writ.Errorf(writ.CodeUnreachable, "%s has the name %s, and the nameservers %s do not answer", what, host,
		servers).
		WithHint("check that they run and that this network reaches them, or name others with writ.nameserver")
}

// answers returns an error if no connection to an address can be made.
func (p *Probe) answers(ctx context.Context, what, setting, at string) error {
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
		return writ.Errorf(writ.CodeUnreachable, "cannot reach %s at %s: no route, or no machine with this address",
			what, at).
			WithHint("correct %s, or the gateway of this network", setting)
	}
	return writ.Errorf(writ.CodeUnreachable, "%s does not answer at %s within %s", what, at, dialWithin).
		WithHint("check that it runs, the address in %s, and routes and firewalls between", setting)
}

// nameserversOf returns the nameservers of a resolv.conf.
func nameserversOf(path string) (all []string) {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if server, ok := strings.CutPrefix(lines.Text(), "nameserver "); ok {
			all = append(all, server)
		}
	}
	return all
}
