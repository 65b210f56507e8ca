package bootserver

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"writ"
	"writ/efi/progress"
	"writ/internal/httpguard"
	"writ/internal/limit"
)

// gate limits the requests of each client address and rejects cross-site requests of browsers.
type gate struct {
	guard    httpguard.Guard
	rates    limit.Addresses
	refusals limit.Lines // by code
	log      *slog.Logger
	now      func() time.Time
}

// guarded returns a handler that calls `next` for admitted requests only.
func (g *gate) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without a new deadline, the deadline of the previous request on the connection would still apply.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerWithin))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if err := g.guard.Check(r); err != nil {
			g.refuse(w, r, err)
			return
		}
		if wait := g.rates.Take(r.RemoteAddr, 1, g.now()); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			g.refuse(w, r, writ.Errorf(writ.CodeRateLimited, "too many requests from this address"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse sends an error as text. iPXE shows only the status.
func (g *gate) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := writ.AsError(err)
	if times, say := g.refusals.Say(string(e.Code), time.Now()); say {
		g.log.WarnContext(r.Context(), "a request was refused", "address", hostOf(r.RemoteAddr), "code", e.Code,
			"err", progress.Text(e.Message, progress.MaxText), "times", times)
	}
	text := string(e.Code) + ": " + e.Message + "\n"
	if e.Hint != "" {
		text += "hint: " + e.Hint + "\n"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(e.Code.Info().Status)
	_, _ = io.WriteString(w, text)
}

// hostOf returns the host of "host:port".
func hostOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
