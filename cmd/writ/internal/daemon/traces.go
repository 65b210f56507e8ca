package daemon

import (
	"context"
	"log/slog"

	"writ/internal/tracing"
)

// OpenTraces opens the exporter of a daemon, nil without a URL in the settings. end sends the remaining traces. It logs
// a failure, because an unavailable collector is not an error of the daemon.
func OpenTraces(
	ctx context.Context, s tracing.Settings, service, version string, log *slog.Logger,
) (traces *tracing.Exporter, end func(), err error) {
	s.Service, s.Version, s.Log = service, version, log
	traces, err = tracing.Open(ctx, s)
	return traces, func() {
		if err := traces.Close(); err != nil {
			log.WarnContext(ctx, "some traces are not sent", "err", err)
		}
	}, err
}
