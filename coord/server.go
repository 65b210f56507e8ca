package coord

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/internal/limit"
	"writ/internal/reach"
)

// Timeouts of the HTTP server. There is no timeout for a whole response: event streams have no end, and set a deadline
// for each write.
const (
	headerWithin = 10 * time.Second
	bodyWithin   = 30 * time.Second
	answerWithin = time.Minute
	idleAfter    = 2 * time.Minute
	defaultGrace = 10 * time.Second

	maxHeader = 64 << 10
)

// CheckListen rejects an address outside loopback with LISTEN_REFUSED, unless the coordinator uses TLS and reading
// needs a login.
func (c *Coordinator) CheckListen(address net.Addr) error {
	if c.TLS != nil && c.Self != nil {
		return nil
	}
	if host, _, err := net.SplitHostPort(address.String()); err == nil && reach.Loopback(host) {
		return nil
	}
	return writ.Errorf(writ.CodeListenRefused, "%s is not on loopback, and the roster names no key and https:// address of this coordinator", address).
		WithHint("found the cluster with `writ init --coordinator https://HOST:PORT` and give this coordinator its coordinator.key, or listen on 127.0.0.1")
}

// Serve serves requests on listener, and does the work of Run, until ctx ends. In-flight requests then have c.Grace to
// finish. Serve closes listener.
func (c *Coordinator) Serve(ctx context.Context, listener net.Listener) error {
	c.init()
	if err := errors.Join(c.validate(), c.CheckListen(listener.Addr())); err != nil {
		listener.Close()
		return err
	}
	server := &http.Server{
		Handler:           c.Handler(),
		ReadHeaderTimeout: headerWithin,
		IdleTimeout:       idleAfter,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          limit.ErrorLog(c.Log),
	}
	if c.TLS != nil {
		listener = tls.NewListener(listener, c.TLS)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.Run(ctx) })
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", listener.Addr(), err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(c.Grace, defaultGrace))
		defer cancel()
		if err := server.Shutdown(ending); err != nil {
			return server.Close()
		}
		return nil
	})
	return group.Wait()
}
