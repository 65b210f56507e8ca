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

// Times of the HTTP server. There is none for a whole answer: event streams have no end, and set a limit for each write.
const (
	headerWithin = 10 * time.Second
	bodyWithin   = 30 * time.Second
	answerWithin = time.Minute
	idleAfter    = 2 * time.Minute
	defaultGrace = 10 * time.Second

	maxHeader = 64 << 10
)

// CheckListen refuses an address that is not on loopback with LISTEN_REFUSED: reading needs no login yet.
func (c *Coordinator) CheckListen(address net.Addr) error {
	if c.InsecureListen {
		return nil
	}
	if host, _, err := net.SplitHostPort(address.String()); err == nil && reach.Loopback(host) {
		return nil
	}
	return writ.Errorf(writ.CodeListenRefused, "%s is not on loopback, and every client that reaches it could read everything", address).
		WithHint("listen on 127.0.0.1 behind a proxy that asks who is there, or say --insecure-listen")
}

// Serve answers on a listener, which it closes, and does what Run does, until ctx ends; then requests that are being answered get c.Grace.
func (c *Coordinator) Serve(ctx context.Context, listener net.Listener) error {
	c.init()
	if err := errors.Join(c.validate(), c.CheckListen(listener.Addr())); err != nil {
		listener.Close()
		return err
	}
	if c.InsecureListen {
		c.Log.WarnContext(ctx, "READING NEEDS NO LOGIN: every client that reaches this address can read everything", "address", listener.Addr().String())
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
