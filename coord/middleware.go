package coord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// asked holds the state of a request that net/http does not have.
type asked struct {
	id      string
	remote  string
	refused bool   // the refusal was logged
	signer  string // the logged-in person, or ""
	viewer  *viewer
}

type askedKey struct{}

func askedOf(ctx context.Context) *asked {
	if a, ok := ctx.Value(askedKey{}).(*asked); ok {
		return a
	}
	return new(asked)
}

const requestIDHeader = "X-Request-Id"

var requestIDPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{8,64}$`)

// observe assigns the request an id, logs and counts it, and recovers from a panic of its handler.
func (c *Coordinator) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		a := &asked{id: r.Header.Get(requestIDHeader), remote: r.RemoteAddr}
		if !requestIDPattern.MatchString(a.id) {
			a.id = writ.NewUUID()
		}
		r = r.WithContext(context.WithValue(r.Context(), askedKey{}, a))
		seen := &recorder{ResponseWriter: w}
		seen.Header().Set(requestIDHeader, a.id)
		defer func() {
			cause := recover()
			if err, _ := cause.(error); cause != nil && !errors.Is(err, http.ErrAbortHandler) {
				c.fail(seen, r, fmt.Errorf("handler panicked: %v\n%s", cause, debug.Stack()))
			}
			c.record(r, seen, time.Since(began))
		}()
		next.ServeHTTP(seen, r)
	})
}

// methods are the methods with their own metric label.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// record writes the access log, at debug level. Changes and refusals have log lines of their own, because any client
// can send any number of requests.
func (c *Coordinator) record(r *http.Request, seen *recorder, took time.Duration) {
	route := chi.RouteContext(r.Context()).RoutePattern()
	if route == "" {
		route = "none"
	}
	method := r.Method
	if !slices.Contains(methods, method) {
		method = "other" // otherwise a client could create any number of series
	}
	c.metrics.requests.WithLabelValues(method, route, fmt.Sprint(seen.status())).Inc()
	if !seen.endless {
		c.metrics.durations.WithLabelValues(method, route).Observe(took.Seconds())
	}
	c.Log.DebugContext(r.Context(), "request", "request", askedOf(r.Context()).id, "method", r.Method, "path", r.URL.Path,
		"status", seen.status(), "bytes", seen.bytes, "took", took.Round(time.Microsecond), "remote", r.RemoteAddr)
}

// recorder records the status and size of a response.
type recorder struct {
	http.ResponseWriter
	code    int
	bytes   int64
	endless bool // a stream, which has no meaningful duration
}

func (r *recorder) status() int {
	if r.code == 0 {
		return http.StatusOK
	}
	return r.code
}

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

const (
	// listCost is the cost of a list, or of a page with lists, in requests: it reads up to a thousand rows, or asks
	// datacenters.
	listCost = 10
	// bootsCost is the cost of the list of booting machines: there may be thousands, which a link carries in pages.
	bootsCost = 100
	// planBytes and bodyBytes are the bytes of a plan, and of another body, that cost one more request. A plan of two
	// thousand calls has 300 KiB.
	planBytes = 1 << 10
	bodyBytes = 16 << 10
	// unknownBody is the cost of a body of unknown length.
	unknownBody = 64
)

// costOf returns the cost of a request, in simple requests.
func costOf(r *http.Request) int {
	rest, isAPI := strings.CutPrefix(r.URL.Path, "/v1/")
	switch {
	case r.Method == http.MethodPost && r.ContentLength < 0:
		return unknownBody
	case r.Method == http.MethodPost && planPath.MatchString(r.URL.Path):
		return listCost + int(r.ContentLength/planBytes)
	case r.Method == http.MethodPost:
		return 1 + int(r.ContentLength/bodyBytes)
	case isAPI && rest == "boots":
		return bootsCost
	case isAPI && strings.Contains(rest, "/"), strings.HasPrefix(r.URL.Path, "/static/"), r.URL.Path == link.Path:
		return 1
	}
	return listCost
}

// guard limits the cost of a request and sets the common response headers.
func (c *Coordinator) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		// The dashboard permits more for itself.
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if wait := c.limits.Take(r.RemoteAddr, costOf(r), time.Now()); wait > 0 {
			h.Set("Retry-After", fmt.Sprint(int(wait/time.Second)+1))
			c.fail(w, r, writ.Errorf(writ.CodeRateLimited, "too many requests from %s", r.RemoteAddr))
			return
		}
		// Reads are checked as well: a page of another site could otherwise use the operator's browser to read from a
		// server on loopback.
		if err := c.names.Check(r); err != nil {
			c.fail(w, r, err)
			return
		}
		control := http.NewResponseController(w)
		if r.ContentLength != 0 {
			_ = control.SetReadDeadline(time.Now().Add(bodyWithin)) // a ResponseWriter in a test may not support it
			// Otherwise it would end the wait for the next request.
			defer func() { _ = control.SetReadDeadline(time.Time{}) }()
		}
		if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") { // streams set a deadline for each write
			_ = control.SetWriteDeadline(time.Now().Add(answerWithin))
		}
		body, release := c.bodies.Meter(r.RemoteAddr, r.Body)
		defer release()
		r.Body = http.MaxBytesReader(w, body, api.MaxSigned)
		next.ServeHTTP(w, r)
	})
}

// Limits of JSON bodies.
const (
	maxRegistration = 16 << 10
	maxProposal     = link.MaxFrame - 4<<10 // it is forwarded in one frame
)

// proofPaths are the paths with a SessionProof as body.
var proofPaths = []string{"/v1/logins/tokens", "/v1/logins/codes", "/v1/logins/ends"}

// strictBodies rejects a JSON body with unknown fields or trailing data, which the generated code would ignore.
func (c *Coordinator) strictBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var most int64
		var into any
		switch {
		case r.Method != http.MethodPost:
		case r.URL.Path == registrationsPath:
			most, into = maxRegistration, new(api.NewRegistration)
		case planPath.MatchString(r.URL.Path):
			most, into = maxProposal, new(writ.Proposal)
		case r.URL.Path == "/v1/logins/challenges":
			most, into = maxRegistration, new(api.NewChallenge)
		case slices.Contains(proofPaths, r.URL.Path):
			most, into = maxRegistration, new(api.SessionProof)
		}
		if into == nil {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
		if err == nil {
			d := json.NewDecoder(bytes.NewReader(body))
			d.DisallowUnknownFields()
			if err = d.Decode(into); err == nil && d.More() {
				err = errors.New("something follows it")
			}
		}
		if err != nil {
			c.fail(w, r, asBadRequest(err))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// fail writes the problem response of an error. The text of an internal error is only logged.
func (c *Coordinator) fail(w http.ResponseWriter, r *http.Request, err error) {
	a := askedOf(r.Context())
	problem := api.ProblemOf(err, a.id)
	log := c.Log.With("request", a.id, "method", r.Method, "path", r.URL.Path)
	switch {
	case r.Context().Err() != nil: // the client is gone
	case problem.Code == writ.CodeInternal:
		log.ErrorContext(r.Context(), "answer request", "err", err)
	case isRefusal(r, problem.Code):
		if log = log.With("remote", a.remote); a.signer != "" {
			log = log.With("signer", a.signer)
		}
		c.refused(r.Context(), log, "request", err)
	}
	body, _ := json.Marshal(problem) // strings and numbers always encode
	w.Header().Set("Content-Type", api.ProblemType)
	askForLogin(w.Header(), err)
	if after := api.RetryAfter(problem.Code); after != "" && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", after)
	}
	w.WriteHeader(problem.Status)
	_, _ = w.Write(append(body, '\n'))
}

// isRefusal reports whether an error denies access. A read of a missing resource, or with invalid parameters, is no
// refusal.
func isRefusal(r *http.Request, code writ.Code) bool {
	switch kind := code.Info().Kind; r.Method {
	case http.MethodGet, http.MethodHead:
		return kind != writ.NotFound && kind != writ.Invalid
	default:
		return true
	}
}

// checkParameters rejects unknown query parameters, empty ones, and lists with an empty item: a misspelled filter, or
// one with an empty shell variable, would select everything.
func checkParameters(next api.StrictHandlerFunc, _ string) api.StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		known := map[string]reflect.Value{}
		if params := reflect.ValueOf(request).FieldByName("Params"); params.IsValid() {
			for field, value := range params.Fields() {
				if name, _, _ := strings.Cut(field.Tag.Get("form"), ","); name != "" {
					known[name] = value
				}
			}
		}
		query, err := url.ParseQuery(r.URL.RawQuery) // URL.Query ignores what it cannot parse
		if err != nil {
			return nil, writ.Errorf(writ.CodeBadRequest, "invalid query: %v", err).WithHint("escape special characters, like %%3B for a semicolon")
		}
		for name, values := range query {
			value, ok := known[name]
			switch {
			case !ok:
				return nil, writ.Errorf(writ.CodeBadRequest, "unknown parameter %q", name)
			case slices.Contains(values, ""):
				return nil, wrongParameter(name, "is empty")
			case hasEmptyItem(value):
				return nil, wrongParameter(name, "has an empty item")
			}
		}
		return next(ctx, w, r, request)
	}
}

// hasEmptyItem reports whether a parameter is a list that contains "".
func hasEmptyItem(value reflect.Value) bool {
	if value.Kind() != reflect.Slice {
		return false
	}
	for _, item := range value.Seq2() {
		if item.Kind() == reflect.String && item.Len() == 0 {
			return true
		}
	}
	return false
}
