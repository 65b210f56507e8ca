package daemon

import (
	"context"
	"log/slog"

	"writ/internal/tracing"
)

// openTraces opens the exporter of a daemon, nil if its settings have no URL.
func openTraces(ctx context.Context, s tracing.Settings, service, version string, log *slog.Logger) (*tracing.Exporter, error) {
	s.Service, s.Version, s.Log = service, version, log
	return tracing.Open(ctx, s)
}
