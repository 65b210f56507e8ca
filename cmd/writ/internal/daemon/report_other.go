//go:build !unix

package daemon

import (
	"context"
	"log/slog"
)

// ReportOnSignal does nothing on this system.
func ReportOnSignal(context.Context, *slog.Logger) {}
