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

// maxHeader limits the header of a request of a node or of monitoring. The largest is the credential of a boot server, with 2 KiB.
const maxHeader = 16 << 10

// serveHTTP serves until ctx ends; then requests that are being answered get some time. note, which may be nil, is told of connections.
func serveHTTP(ctx context.Context, l net.Listener, handler http.Handler, grace time.Duration, log *slog.Logger, note func(net.Conn, http.ConnState)) error {
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
		_ = server.Close() // what did not end in time is cut
	}
	<-served
	return nil
}
