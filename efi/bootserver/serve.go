package bootserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"writ/internal/limit"
)

// Limits of connections. The limit of a response, answerWithin, applies to each write, because slow networks need
// minutes for an image.
const (
	maxConnections = 1024
	headerWithin   = 10 * time.Second
	requestWithin  = 30 * time.Second
	idleAfter      = time.Minute
	endWithin      = 10 * time.Second
)

// Serve serves machines and operators on their listeners until ctx ends, and closes both. Requests in progress then get
// up to endWithin to complete.
func (s *Server) Serve(ctx context.Context, machines, operators net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(ctx, machines, s.TLS, s.ForMachines(), s.Log) })
	group.Go(func() error { return serve(ctx, operators, nil, s.ForOperators(), s.Log) })
	return group.Wait()
}

// serve answers the requests of a listener. secure is nil for http.
func serve(
	ctx context.Context, l net.Listener, secure *tls.Config, handler http.Handler, log *slog.Logger,
) error {
	l = (&limit.Crowd{Size: maxConnections}).Listener(l)
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerWithin, ReadTimeout: requestWithin, IdleTimeout: idleAfter,
		MaxHeaderBytes: MaxHeader,
		ErrorLog:       limit.ErrorLog(log),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer stop()
	err := server.Shutdown(ending)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close() // a machine that was loading the image requests a script again
	}
	<-served
	return err
}
