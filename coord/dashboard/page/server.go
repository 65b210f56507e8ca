package page

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/markup"
	"writ/coord/dashboard/static"
	"writ/internal/limit"
)

// view builds the page of a request, both for loading and for live updates. If quiet is true, the ledger has no new
// events since the reader's page was built, and the view may omit the parts that depend on the ledger only.
type view func(ctx context.Context, r *http.Request, quiet bool) (*Page, error)

// Route is the view of an address pattern.
type Route struct {
	Pattern string
	View    view
	// Live pages receive updates once a second. Views that send requests of their own to datacenters, or read many
	// events, are not live.
	Live bool
}

// Server serves pages and their live updates. Its state is the number of open streams.
type Server struct {
	Log *slog.Logger // required
	// Stopping is closed when the coordinator stops, which ends the streams. It may be nil.
	Stopping <-chan struct{}
	// Reader returns the reader who sent an admitted request. Required.
	Reader func(ctx context.Context) Reader
	// Notice returns the banner at the top of every page, "" for none. It may be nil.
	Notice func(ctx context.Context) string
	// Still returns an error if the sender of a request has lost the right to read. Streams call it before each update
	// that they send. It may be nil.
	Still func(ctx context.Context) error
	// Events returns the oldest and the newest event of the ledger. Required.
	Events func(ctx context.Context) (oldest, newest int64, err error)
	// News returns a channel that is closed when the ledger stores a row after the call. Required.
	News func() <-chan struct{}
	// MaxStreams limits the open streams. Required. Pages beyond the limit have no live updates.
	MaxStreams int

	streams limit.Shares
}

// Register adds pages to a router, with their live updates below /live/, the files below /static/ and the login page.
// It is called once. It registers only GET; the router rejects other methods.
func (s *Server) Register(routes chi.Router, pages ...Route) {
	s.streams.Size = s.MaxStreams
	routes = routes.With(protect)
	for _, p := range pages {
		routes.Get(p.Pattern, s.show(p.View))
		if p.Live {
			routes.Get("/live"+p.Pattern, s.stream(p.View))
		}
	}
	routes.Get("/static/*", s.serveFile)
	routes.Get("/login", s.login)
}

// policy is the content security policy of the pages. It forbids inline scripts and styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// protect sets the security headers of all responses. Pages show names that strangers chose: if such a name becomes
// markup by mistake, browsers must not run scripts or load content from it.
func protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, forms send the origin "null", which is rejected
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// Refuse answers a browser that was not admitted, with a page that has no data of the cluster.
func (s *Server) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := writ.AsError(err)
	show := func(w http.ResponseWriter, r *http.Request) {
		s.write(w, r, e.Code.Info().Status, problemPage(e, true))
	}
	protect(http.HandlerFunc(show)).ServeHTTP(w, r)
}

// login serves the page that submits the code after the # of its address. Browsers do not send that part to the server.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	s.write(w, r, http.StatusOK, &Page{Title: "Log in", bare: true, Body: loginPage{}})
}

// show serves a whole page.
func (s *Server) show(v view) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The newest event is read before the page is built. The stream then sends an event in between again, and no event
		// is lost.
		_, newest, err := s.Events(r.Context())
		var p *Page
		if err == nil {
			p, err = v(r.Context(), r, false)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if p.Redirect != "" {
			w.Header().Set("HX-Redirect", p.Redirect) // htmx cannot see the target of a redirect
			if r.Header.Get("HX-Request") == "" {
				http.Redirect(w, r, p.Redirect, http.StatusSeeOther)
			}
			return
		}
		if len(p.parts) > 0 {
			p.live = liveURL(r.URL, newest)
		}
		s.write(w, r, http.StatusOK, p)
	}
}

// fail serves a page with an error. The text of an internal error is only logged.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client has disconnected
	}
	e := api.AsError(err)
	if after := api.RetryAfter(e.Code); after != "" {
		w.Header().Set("Retry-After", after)
	}
	if e.Code == writ.CodeInternal {
		s.Log.ErrorContext(r.Context(), "show page", "path", r.URL.Path, "err", err)
		e = &writ.Error{Code: e.Code, Message: "the page cannot be shown", Hint: "see the log of the coordinator"}
	}
	info := e.Code.Info()
	s.write(w, r, info.Status, problemPage(e, info.Kind == writ.Denied)) // if denied, without data of the cluster
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, p *Page) {
	p.reader = s.Reader(r.Context())
	if s.Notice != nil && !p.bare {
		p.notice = s.Notice(r.Context())
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, markup.Render(p.HTML()).String()) // an error means that the client has disconnected
}

// serveFile serves a file for browsers, which needs no login.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request) {
	if name := chi.URLParam(r, "*"); !static.Serve(w, r, name) {
		s.Refuse(w, r, writ.Errorf(writ.CodeNotFound, "unknown file %q", name))
	}
}
