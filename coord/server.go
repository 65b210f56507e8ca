package coord

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"writ/internal/limit"
)

// Timeouts of the HTTP server. A whole response has no timeout: event streams have no end, and set a deadline for
// each write.
const (
	headerWithin = 10 * time.Second
	idleAfter    = 2 * time.Minute
	defaultGrace = 10 * time.Second

	maxHeader = 64 << 10
)

// Serve serves requests on listener, and does the work of Run, until ctx ends. In-flight requests then have c.Grace to
// finish. Serve closes listener.
func (c *Coordinator) Serve(ctx context.Context, listener net.Listener) error {
	if err := c.CheckListen(listener.Addr()); err != nil {
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
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Grace)
		defer cancel()
		if err := server.Shutdown(ending); err != nil {
			return server.Close()
		}
		return nil
	})
	return group.Wait()
}
