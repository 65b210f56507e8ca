package bench

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/identity"
	"writ/identity/pki"
	"writ/supervisor/link"
)

// front is the coordinator of clusters: a coordinator of this process, or a served one.
type front interface {
	// address returns the URL for supervisors.
	address() string
	// submit sends a submission and returns its run.
	submit(ctx context.Context, signed []byte) (writ.RunID, error)
	// decide sends a statement and returns when its supervisor has carried it out.
	decide(ctx context.Context, signed []byte) error
	// awaitSupervisor waits until the supervisor of a datacenter has connected.
	awaitSupervisor(ctx context.Context, datacenter writ.DatacenterID) error
	// news returns the state that follows from the events of all datacenters.
	news() *events
}

// carryOut sends a submission and returns when its run has succeeded.
func carryOut(ctx context.Context, f front, signed []byte) error {
	run, err := f.submit(ctx, signed)
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	state, err := f.news().end(ctx, run)
	if err == nil && state != writ.RunSucceeded {
		err = fmt.Errorf("the run is %s", state)
	}
	return err
}

// awaitNodes waits until supervisors report nodes as ready.
func awaitNodes(ctx context.Context, f front, names []string) error {
	return f.news().await(ctx, func(e *events) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !e.isReady(name) })
	})
}

// coordinator is the coordinator's side of the link to the supervisor of a cluster. It implements front.
type coordinator struct {
	roster     *identity.Roster
	datacenter *identity.Datacenter
	listener   *link.Listener
	events     *events
	connected  <-chan struct{} // signals that the supervisor is connected
	url        string
}

// listen opens the coordinator's side of the link of a datacenter. The server runs in the group `works` and ends with
// ctx. It uses TLS if the owner issues certificates.
func (c *coordinator) listen(
	ctx context.Context, works *errgroup.Group, of *owner, datacenter *identity.Datacenter,
) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.roster, c.datacenter = of.person.Roster, datacenter
	c.url = "http://" + l.Addr().String()
	if of.issuer != nil {
		c.url = "https://" + l.Addr().String()
		l = tls.NewListener(l, pki.Server(of.issuer.Certificate, nil))
	}
	c.events = newEvents()
	connected := make(chan struct{}, 1)
	c.listener = &link.Listener{
		Authenticate: c.authenticate,
		Welcome: func(context.Context, link.Hello) (link.Welcome, error) {
			return link.Welcome{Roster: c.roster.Version}, nil
		},
		Events: c.events,
		Connected: func(context.Context, *link.Session) {
			select {
			case connected <- struct{}{}:
			default:
			}
		},
		Log: slog.New(slog.DiscardHandler), // disconnects of the supervisor are expected
	}
	c.connected = connected
	mux := http.NewServeMux()
	mux.Handle(link.Path, c.listener)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	works.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the link: %w", err)
		}
		return nil
	})
	works.Go(func() error {
		<-ctx.Done()
		err := server.Close()
		c.listener.Close()
		return err
	})
	return nil
}

// authenticate admits only the supervisor of the datacenter.
func (c *coordinator) authenticate(_ context.Context, hello link.Hello, nonce []byte) error {
	text := identity.LinkHelloText(nonce, c.url, hello.Datacenter, hello.Journal)
	if hello.Datacenter != c.datacenter.ID || !ed25519.Verify(c.datacenter.SupervisorKey, text, hello.Signature) {
		return writ.Errorf(writ.CodeSignerUnknown, "this is not the supervisor of the benchmark")
	}
	return nil
}

// request sends a request to the supervisor over the link.
func (c *coordinator) request(ctx context.Context, verb link.Verb, params, answer any) error {
	return c.listener.Request(ctx, c.datacenter.ID, verb, params, answer)
}

func (c *coordinator) address() string { return c.url }

func (c *coordinator) news() *events { return c.events }

func (c *coordinator) submit(ctx context.Context, signed []byte) (writ.RunID, error) {
	var run writ.Run
	err := c.request(ctx, link.VerbSubmit, link.Submit{Signed: signed}, &run)
	return run.ID, err
}

func (c *coordinator) decide(ctx context.Context, signed []byte) error {
	return c.request(ctx, link.VerbStatement, link.Statement{Signed: signed}, nil)
}

func (c *coordinator) awaitSupervisor(ctx context.Context, _ writ.DatacenterID) error {
	select {
	case <-c.connected:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
