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

// asked is what is known of a request besides what net/http says.
type asked struct {
	id      string
	remote  string
	refused bool   // that it was is in the log
	signer  string // who has logged in and asks, "" if nobody has
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

// observe gives the request an id, takes its log line and its metrics, and survives its panic.
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

// methods are those that are counted by their names.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// record writes the access log, for who looks for a defect. What a request has changed has a line of its own, and so has what was refused: anybody
// may send as many requests as he likes.
func (c *Coordinator) record(r *http.Request, seen *recorder, took time.Duration) {
	route := chi.RouteContext(r.Context()).RoutePattern()
	if route == "" {
		route = "none"
	}
	method := r.Method
	if !slices.Contains(methods, method) {
		method = "other" // or a stranger could make as many series as there are words
	}
	c.metrics.requests.WithLabelValues(method, route, fmt.Sprint(seen.status())).Inc()
	if !seen.endless {
		c.metrics.durations.WithLabelValues(method, route).Observe(took.Seconds())
	}
	c.Log.DebugContext(r.Context(), "request", "request", askedOf(r.Context()).id, "method", r.Method, "path", r.URL.Path,
		"status", seen.status(), "bytes", seen.bytes, "took", took.Round(time.Microsecond), "remote", r.RemoteAddr)
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	code    int
	bytes   int64
	endless bool // a stream: how long it took says nothing
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

// Unwrap lets http.ResponseController and the link find what they need.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

const (
	// listCost is how many requests one for a list, or for a page with lists, counts as: it reads up to a thousand rows, or asks datacenters.
	listCost = 10
	// bootsCost is what a list of machines that start counts as: it may be thousands of them, which a link carries in pieces.
	bootsCost = 100
	// planBytes and bodyBytes are how many bytes of a plan, and of another body, count as one more request. A plan of two thousand calls has 300 KiB.
	planBytes = 1 << 10
	bodyBytes = 16 << 10
	// unknownBody is what a body counts as whose size nobody says.
	unknownBody = 64
)

// costOf returns how many requests a request counts as.
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

// guard bounds what a request may cost and sets the headers that every answer has.
func (c *Coordinator) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'") // the dashboard allows itself more
		if wait := c.limits.Take(r.RemoteAddr, costOf(r), time.Now()); wait > 0 {
			h.Set("Retry-After", fmt.Sprint(int(wait/time.Second)+1))
			c.fail(w, r, writ.Errorf(writ.CodeRateLimited, "too many requests from %s", r.RemoteAddr))
			return
		}
		// What only reads is checked as well: a page of a stranger could read, with the operator's browser, what listens on loopback.
		if err := c.names.Check(r); err != nil {
			c.fail(w, r, err)
			return
		}
		control := http.NewResponseController(w)
		if r.ContentLength != 0 {
			_ = control.SetReadDeadline(time.Now().Add(bodyWithin))     // a ResponseWriter of a test need not be able to
			defer func() { _ = control.SetReadDeadline(time.Time{}) }() // or it would end the wait for the next request
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

// Bounds of the bodies that are JSON.
const (
	maxRegistration = 16 << 10
	maxProposal     = link.MaxFrame - 4<<10 // it travels on in one frame
)

// proofPaths are where a session proves itself.
var proofPaths = []string{"/v1/logins/tokens", "/v1/logins/codes", "/v1/logins/ends"}

// strictBodies refuses a body of JSON with fields that nobody knows, or with something behind it, which the generated code would pass
// over.
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

// fail answers with the problem that err is. The text of an internal error goes to the log only.
func (c *Coordinator) fail(w http.ResponseWriter, r *http.Request, err error) {
	a := askedOf(r.Context())
	problem := api.ProblemOf(err, a.id)
	log := c.Log.With("request", a.id, "method", r.Method, "path", r.URL.Path)
	switch {
	case r.Context().Err() != nil: // nobody is there to hear it
	case problem.Code == writ.CodeInternal:
		log.ErrorContext(r.Context(), "answer request", "err", err)
	case isRefusal(r, problem.Code):
		if log = log.With("remote", a.remote); a.signer != "" {
			log = log.With("signer", a.signer)
		}
		c.refused(r.Context(), log, "request", err)
	}
	body, _ := json.Marshal(problem) // strings and numbers
	w.Header().Set("Content-Type", api.ProblemType)
	askForLogin(w.Header(), err)
	if problem.Code == writ.CodeRateLimited && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(problem.Status)
	_, _ = w.Write(append(body, '\n'))
}

// isRefusal tells a request that was not let in from one that only reads, and asks for what is not there or in a form that nobody knows.
func isRefusal(r *http.Request, code writ.Code) bool {
	switch kind := code.Info().Kind; r.Method {
	case http.MethodGet, http.MethodHead:
		return kind != writ.NotFound && kind != writ.Invalid
	default:
		return true
	}
}

// checkParameters refuses query parameters that the operation does not have, empty ones, and lists with an empty item: a filter with a typing error, or
// whose variable had no value, would select everything.
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
		query, err := url.ParseQuery(r.URL.RawQuery) // URL.Query would leave out what it cannot read
		if err != nil {
			return nil, writ.Errorf(writ.CodeBadRequest, "the query cannot be read: %v", err).WithHint("escape what is not a letter or digit, like %%3B for a semicolon")
		}
		for name, values := range query {
			value, ok := known[name]
			switch {
			case !ok:
				return nil, writ.Errorf(writ.CodeBadRequest, "there is no parameter %q here", name)
			case slices.Contains(values, ""):
				return nil, wrongParameter(name, "is empty")
			case hasEmptyItem(value):
				return nil, wrongParameter(name, "has an empty item")
			}
		}
		return next(ctx, w, r, request)
	}
}

// hasEmptyItem says whether a parameter is a list, with "" in it.
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
