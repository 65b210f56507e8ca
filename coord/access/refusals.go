package access

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"writ"
	"writ/internal/limit"
)

// Refusals logs and counts refused texts and requests.
type Refusals struct {
	Count *prometheus.CounterVec // by kind of text and error code
	Lines *limit.Lines           // bounds the log: any client can send any number of refused texts
}

// Record logs and counts a refusal. For each request only the first call has an effect: it comes from the code that
// found the reason.
func (f *Refusals) Record(ctx context.Context, log *slog.Logger, what string, err error) {
	r := RequestOf(ctx)
	if r.refused {
		return
	}
	r.refused = true
	code := writ.CodeOf(err)
	f.Count.WithLabelValues(what, string(code)).Inc()
	if times, say := f.Lines.Say(what+" "+string(code), time.Now()); say {
		level := slog.LevelWarn
		if code == writ.CodeLoginRequired { // the session ended or never started; the response asks for a login
			level = slog.LevelInfo
		}
		log.Log(ctx, level, what+" refused", "code", code, "err", err, "times", times)
	}
}
