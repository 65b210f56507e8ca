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

// MetricsListener returns the listener for metrics: plain on loopback, and with TLS elsewhere, because metrics contain
// names of nodes and people. If secure is nil, it rejects a listener that is not on loopback. lacks is the reason in
// this error, and hint an alternative.
func MetricsListener(l net.Listener, secure *tls.Config, lacks, hint string) (net.Listener, error) {
	switch {
	case l == nil || OnLoopback(l.Addr()):
		return l, nil
	case secure == nil:
		return nil, writ.Errorf(writ.CodeListenRefused, "the listener for metrics at %s is not on loopback, and %s",
			l.Addr(), lacks).
			WithHint("use an address like 127.0.0.1:9180 for --metrics-listen, or %s", hint)
	}
	return tls.NewListener(l, secure), nil
}

// metricsGrace limits the time for in-flight requests for metrics after shutdown begins.
const metricsGrace = time.Second

// ServeMetrics serves metrics until ctx ends. It returns at once without a listener.
func ServeMetrics(ctx context.Context, l net.Listener, handler http.Handler, log *slog.Logger) error {
	if l == nil {
		return nil
	}
	log.InfoContext(ctx, "metrics are served", "address", l.Addr().String())
	return ServeHTTP(ctx, l, handler, metricsGrace, log, nil)
}
