package front

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"writ"
	"writ/coord/api"
)

// Deadlines of connections. Streams have no deadline for the whole response.
const (
	bodyWithin   = 30 * time.Second
	answerWithin = time.Minute
)

// Guard limits the cost of a request and sets the common response headers.
func (f *Front) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		// The dashboard replaces this policy for its pages.
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if wait := f.Rates.Take(r.RemoteAddr, costOf(r), time.Now()); wait > 0 {
			h.Set("Retry-After", fmt.Sprint(int(wait/time.Second)+1))
			f.Fail(w, r, writ.Errorf(writ.CodeRateLimited, "too many requests from %s", r.RemoteAddr))
			return
		}
		// Reads are checked as well: a page of another site could otherwise use the operator's browser to read from a
		// server on loopback.
		if err := f.Names.Check(r); err != nil {
			f.Fail(w, r, err)
			return
		}
		control := http.NewResponseController(w)
		if r.ContentLength != 0 {
			_ = control.SetReadDeadline(time.Now().Add(bodyWithin)) // a ResponseWriter in a test may not support it
			// The deadline is reset at the end. Otherwise it would end the connection while it waits for the next
			// request.
			defer func() { _ = control.SetReadDeadline(time.Time{}) }()
		}
		if !isStream(r) { // streams set a deadline for each write
			_ = control.SetWriteDeadline(time.Now().Add(answerWithin))
		}
		body, release := f.Bodies.Meter(r.RemoteAddr, r.Body)
		defer release()
		r.Body = http.MaxBytesReader(w, body, api.MaxSigned)
		next.ServeHTTP(w, r)
	})
}

// isStream reports whether a client asks for a stream of events, which has no end.
func isStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}
