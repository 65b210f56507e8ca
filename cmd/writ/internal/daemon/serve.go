package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"writ/internal/limit"
)

// maxHeader limits the header of a request from a node or monitor. The largest is the credential of a boot server, with
// 2 KiB.
const maxHeader = 16 << 10

// ServeHTTP serves until ctx ends. In-flight requests then have grace to finish. note, which may be nil, observes
// connections.
func ServeHTTP(
	ctx context.Context, l net.Listener, handler http.Handler, grace time.Duration, log *slog.Logger,
	note func(net.Conn, http.ConnState),
) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxHeader, ErrorLog: limit.ErrorLog(log), ConnState: note,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer stop()
	if err := server.Shutdown(ending); err != nil {
		_ = server.Close() // cuts requests that did not end in time
	}
	<-served
	return nil
}
