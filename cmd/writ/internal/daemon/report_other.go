//go:build !unix

package daemon

import (
	"context"
	"log/slog"
)

// ReportOnSignal does nothing: there is no signal for it here.
func ReportOnSignal(context.Context, *slog.Logger) {}
