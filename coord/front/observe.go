package front

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/coord/access"
	"writ/internal/lazyregexp"
)

const requestIDHeader = "X-Request-Id"

var requestIDPattern = lazyregexp.New(`^[A-Za-z0-9._-]{8,64}$`)

// Observe assigns the request an id, logs and counts it, and recovers from a panic of its handler.
func (f *Front) Observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		a := &access.Request{ID: r.Header.Get(requestIDHeader), Remote: r.RemoteAddr}
		if !requestIDPattern.MatchString(a.ID) {
			a.ID = writ.NewUUID()
		}
		r = r.WithContext(access.With(r.Context(), a))
		seen := &recorder{ResponseWriter: w}
		seen.Header().Set(requestIDHeader, a.ID)
		defer func() {
			cause := recover()
			if err, _ := cause.(error); cause != nil && !errors.Is(err, http.ErrAbortHandler) {
				f.Fail(seen, r, fmt.Errorf("handler panicked: %v\n%s", cause, debug.Stack()))
			}
			f.record(r, seen, time.Since(began))
		}()
		next.ServeHTTP(seen, r)
	})
}

// methods are the methods with their own metric label.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodOptions,
}

// record counts a request and logs it. The level is debug, because any client can send any number of requests; changes
// and refusals have log lines of their own.
func (f *Front) record(r *http.Request, seen *recorder, took time.Duration) {
	route := cmp.Or(chi.RouteContext(r.Context()).RoutePattern(), "none")
	method := r.Method
	if !slices.Contains(methods, method) {
		method = "other" // otherwise a client could create any number of series
	}
	f.requests.WithLabelValues(method, route, fmt.Sprint(seen.status())).Inc()
	if !seen.endless {
		f.durations.WithLabelValues(method, route).Observe(took.Seconds())
	}
	f.Log.DebugContext(r.Context(), "request", "request", access.RequestOf(r.Context()).ID, "method", r.Method,
		"path", r.URL.Path,
		"status", seen.status(), "bytes", seen.bytes, "took", took.Round(time.Microsecond), "remote", r.RemoteAddr)
}

// recorder records the status and size of a response.
type recorder struct {
	http.ResponseWriter
	code    int
	bytes   int64
	endless bool // the response is a stream, whose duration is not measured
}

func (r *recorder) status() int { return cmp.Or(r.code, http.StatusOK) }

func (r *recorder) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
	if code == http.StatusSwitchingProtocols || strings.HasPrefix(r.Header().Get("Content-Type"), "text/event-stream") {
		r.endless = true
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// Unwrap gives http.ResponseController and the link access to the original ResponseWriter.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
