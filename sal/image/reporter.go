package image

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"writ"
	"writ/internal/limit"
	"writ/sal"
	"writ/sal/catalog"
)

// reporter reports on a fetch: progress and errors to the script, their causes to the operator's log.
type reporter struct {
	call  sal.Request
	args  *catalog.ImageFetch
	log   *slog.Logger // see Driver.Log
	lines *limit.Lines
	// inside means that a request went to a server that only the operator's configuration permits. Errors and progress
	// then reveal no details.
	inside atomic.Bool
}

// tell forwards progress to the script, unless inside is set.
func (r *reporter) tell(text string) {
	if !r.inside.Load() {
		r.call.Progress(text)
	}
}

// refuse logs why an image was not fetched, for the operator, and returns the error for the script. Scripts can cause
// such errors at any rate, so each kind is logged only once in a while per project. One project cannot hide the log
// lines of another.
func (r *reporter) refuse(ctx context.Context, kind string, why error, e *writ.Error) error {
	if r.log == nil {
		return e
	}
	if times, say := r.lines.Say(kind+" "+string(r.call.Resource.Project), time.Now()); say {
		r.log.WarnContext(ctx, "fetch an image", "image", r.call.Resource.String(), "url", r.args.URL, "code", e.Code,
			"times", times, "err", why)
	}
	return e
}
