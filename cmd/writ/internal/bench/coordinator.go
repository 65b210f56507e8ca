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

// coordinator is the coordinator's side of the link to the supervisor of a cluster.
type coordinator struct {
	roster     *identity.Roster
	datacenter *identity.Datacenter
	listener   *link.Listener
	events     *events
	url        string
}

// listen opens the coordinator's side of the link of the owner's cluster. The server runs in the group `works` and ends
// with ctx. It uses TLS if the owner issues certificates.
func (c *coordinator) listen(ctx context.Context, works *errgroup.Group, of *owner) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.roster, c.datacenter = of.person.Roster, of.datacenter
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
	c.events.connected = connected
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

// submit sends a submission over the link.
func (c *coordinator) submit(ctx context.Context, signed []byte) (run writ.Run, err error) {
	err = c.request(ctx, link.VerbSubmit, link.Submit{Signed: signed}, &run)
	return run, err
}

// carryOut sends a submission and returns when its run has succeeded.
func (c *coordinator) carryOut(ctx context.Context, signed []byte) error {
	run, err := c.submit(ctx, signed)
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	state, err := c.events.end(ctx, run.ID)
	if err == nil && state != writ.RunSucceeded {
		err = fmt.Errorf("the run is %s", state)
	}
	return err
}

// awaitNodes waits until the supervisor reports nodes as ready.
func (c *coordinator) awaitNodes(ctx context.Context, names []string) error {
	return c.events.await(ctx, func(e *events) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !e.isReady(name) })
	})
}
