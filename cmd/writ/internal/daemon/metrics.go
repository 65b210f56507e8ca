package daemon

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"writ"
)

// metricsListener returns the listener for metrics of a part as it is where only this machine reaches it, and with TLS elsewhere: metrics have names of
// nodes and people. A part that speaks no TLS refuses such an address; lacks says why it does not, and hint what to do besides.
func metricsListener(l net.Listener, secure *tls.Config, lacks, hint string) (net.Listener, error) {
	switch {
	case l == nil || onLoopback(l.Addr()):
		return l, nil
	case secure == nil:
		return nil, writ.Errorf(writ.CodeListenRefused, "the listener for metrics at %s is not on loopback, and %s", l.Addr(), lacks).
			WithHint("use an address like 127.0.0.1:9180 for --metrics-listen, or %s", hint)
	}
	return tls.NewListener(l, secure), nil
}

// metricsGrace is how long answers with metrics may take once a part is told to end.
const metricsGrace = time.Second

// serveMetrics serves metrics until ctx ends. Without a listener there is nothing to do.
func serveMetrics(ctx context.Context, l net.Listener, handler http.Handler, log *slog.Logger) error {
	if l == nil {
		return nil
	}
	log.InfoContext(ctx, "metrics are served", "address", l.Addr().String())
	return serveHTTP(ctx, l, handler, metricsGrace, log, nil)
}
