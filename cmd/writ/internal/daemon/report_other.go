//go:build !unix

package daemon

import (
	"context"
	"log/slog"
)

// ReportOnSignal is not supported on this system.
func ReportOnSignal(context.Context, *slog.Logger) {}
