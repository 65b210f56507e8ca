// Package dashboard is the pages that a coordinator shows to operators: what runs, what waits, where, and what went wrong. It reads the
// ledger and asks the datacenters; it changes nothing, has no form that could except that which logs out, and verifies no signature: what was signed is shown as text. The browser
// gets plain HTML that works without scripts; with them, a page stays as new as the ledger is.
package dashboard

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/markup"
	"writ/identity"
	"writ/internal/limit"
	"writ/ledger"
	"writ/supervisor/link"
)

// Ledger is what the pages read of a ledger.Ledger, whose contract holds.
type Ledger interface {
	Projects(ctx context.Context) ([]identity.Project, error)
	Run(ctx context.Context, id writ.RunID) (ledger.Run, error)
	Runs(ctx context.Context, filter ledger.RunFilter, page ledger.Page) (ledger.List[ledger.Run], error)
	CountRuns(ctx context.Context, filter ledger.RunFilter) (ledger.RunCounts, error)
	Failures(ctx context.Context, filter ledger.RunFilter, max int) ([]ledger.Failures, error)
	LastHeard(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]time.Time, error)
	Calls(ctx context.Context, run writ.RunID, page ledger.Page) (ledger.List[writ.Call], error)
	CountCalls(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]map[writ.CallState]int, error)
	Nodes(ctx context.Context, filter ledger.NodeFilter, page ledger.Page) (ledger.List[writ.Node], error)
	OpenCalls(ctx context.Context, max int, runs ...writ.RunID) (map[writ.RunID][]writ.Call, error)
	Signed(ctx context.Context, payload writ.Digest) ([]byte, error)
	Resources(ctx context.Context, filter ledger.ResourceFilter, page ledger.Page) (ledger.List[writ.Resource], error)
	CountResources(ctx context.Context, filter ledger.ResourceFilter) (map[writ.ResourceKind]int, error)
	Deployments(ctx context.Context, filter ledger.ResourceFilter, page ledger.Page) (ledger.List[ledger.Deployment], error)
	Events(ctx context.Context, after int64, filter ledger.EventFilter, max int) (events []ledger.Event, more bool, err error)
	Usage(ctx context.Context, filter ledger.UsageFilter, page ledger.Page) (ledger.List[ledger.Usage], error)
	UsageOfProjects(ctx context.Context, filter ledger.UsageFilter, page ledger.Page) (ledger.List[ledger.ProjectUsage], error)
	EventRange(ctx context.Context) (oldest, newest int64, err error)
}

// LiveView is what the pages ask about the datacenters as they are now.
type LiveView interface {
	// Datacenters lists the datacenters of the roster with their health.
	Datacenters(ctx context.Context) ([]api.Datacenter, error)
	// Queues asks every datacenter for the depth of its queues. One that cannot be asked has an error in its entry.
	Queues(ctx context.Context) ([]api.DatacenterQueues, error)
	// Holds asks datacenters what is on hold, all of them if none is given. One that cannot be asked has an error in its entry.
	Holds(ctx context.Context, only writ.DatacenterID) ([]api.DatacenterHolds, error)
	// Boots asks datacenters, all of them if none is given, which machines start there: how many, and the newest of each, at most so many. One that
	// cannot be asked has an error in its entry.
	Boots(ctx context.Context, only writ.DatacenterID, most int) ([]api.DatacenterBoots, error)
	// Why says in a sentence each why runs wait, as the API does.
	Why(ctx context.Context, runs ...ledger.Run) (map[writ.RunID]string, error)
	// Certificate returns the certificate that signed a submission, nil if a plain key did.
	Certificate(ctx context.Context, signed []byte) (*identity.Certificate, error)
	// Output returns what a run has answered, as its datacenter has signed it, nil if it has not.
	Output(ctx context.Context, run ledger.Run) (map[string]any, error)
	// Secrets asks all datacenters, or only one, which secrets they have of some projects, or of all if none is given. One that cannot be asked has an
	// error in its entry.
	Secrets(ctx context.Context, only writ.DatacenterID, projects []writ.ProjectID) ([]api.DatacenterSecrets, error)
	// Values asks the datacenter of a run for what it and its calls after a number were given and answered.
	Values(ctx context.Context, run writ.RunID, after int) (api.RunValues, error)
	// LogLines asks the datacenter of a run for at most max lines of its log after one of them.
	LogLines(ctx context.Context, run writ.RunID, after, max int) ([]writ.LogLine, error)
	// NodeLog asks a node for lines of its log, by way of its datacenter.
	NodeLog(ctx context.Context, datacenter writ.DatacenterID, query link.LogOfNode) (api.NodeLog, error)
	// News returns a channel that is closed when something is stored in the ledger after the call.
	News() <-chan struct{}
}

// DefaultMaxStreams bounds the pages that are kept up to date at the same time. Others are as good as their last reload.
const DefaultMaxStreams = 256

// Dashboard is the pages of one coordinator. Fill in its fields, then call Register; it starts nothing. Run samples the queues for their charts.
type Dashboard struct {
	Ledger   Ledger       // required
	LiveView LiveView     // required
	Log      *slog.Logger // required
	// Stopping is closed when the coordinator stops: streams end then. Nil if it never stops.
	Stopping <-chan struct{}
	// Reader says who has sent a request, once it was let in. Required.
	Reader func(ctx context.Context) Reader
	// Notice returns what every page says at its top to the sender of a request, "" for nothing. It may be nil.
	Notice func(ctx context.Context) string
	// Still returns why the sender of a request may not read any more. It is asked before each frame; it may be nil.
	Still func(ctx context.Context) error
	// Ends lists the things that expire, like roles and certificates. It may be nil.
	Ends func(ctx context.Context) []identity.Expiry
	// LedgerDown reports whether the ledger of this coordinator cannot be used, as of its last check. It may be nil.
	LedgerDown func() bool
	// MaxStreams bounds the streams that are open at the same time, DefaultMaxStreams if 0.
	MaxStreams int

	streams limit.Shares
	now     pulse
	past    history
	texts   texts
	counted counted
}

// Reader is somebody who looks at pages. The zero value may see nothing.
type Reader struct {
	Name     string           // who has logged in, as the roster has it; "" if nobody has
	Until    time.Time        // when the login ends
	All      bool             // sees all projects, and what belongs to none: nodes, queues
	Projects []writ.ProjectID // or these
	// May reports whether the reader's role allows something in a project, "" for all of them. Pages offer commands by it. If it is nil nobody
	// has logged in, and pages offer all: it is the signature under a command that counts.
	May func(action identity.Action, project writ.ProjectID) bool
}

// ends returns the things that expire.
func (d *Dashboard) ends(ctx context.Context) []identity.Expiry {
	if d.Ends == nil {
		return nil
	}
	return d.Ends(ctx)
}

// may reports whether a page offers a reader the command for something.
func (r Reader) may(action identity.Action, project writ.ProjectID) bool {
	return r.May == nil || r.May(action, project)
}

// maySubmit reports whether a reader may hand in a script to one of these projects.
func (r Reader) maySubmit(projects []identity.Project) bool {
	return slices.ContainsFunc(projects, func(p identity.Project) bool { return r.may(identity.ActionSubmit, p.ID) })
}

// Reads reports whether a reader may see what is in a project.
func (r Reader) Reads(project writ.ProjectID) bool {
	return r.All || slices.Contains(r.Projects, project)
}

// runOf returns a run that the sender of a request may see. Any other run is as if it did not exist.
func (d *Dashboard) runOf(ctx context.Context, id writ.RunID) (ledger.Run, error) {
	run, err := d.Ledger.Run(ctx, id)
	if err == nil && !d.Reader(ctx).Reads(run.Project) {
		return ledger.Run{}, ledger.NotThere("run", id)
	}
	return run, err
}

// view makes a page of a request. The same view makes the page that is loaded and the news of it that follow. It may leave out parts of
// the ledger when it is quiet: when the ledger has nothing new since the reader's page was made.
type view func(ctx context.Context, r *http.Request, quiet bool) (*page, error)

// Register adds the pages to routes, and below /live/ and /static/ what they need. It is called once. All answers to anything but GET are left
// to the routes.
func (d *Dashboard) Register(routes chi.Router) {
	if d.MaxStreams <= 0 {
		d.MaxStreams = DefaultMaxStreams
	}
	d.streams.Size = d.MaxStreams

	routes = routes.With(protect)
	for pattern, v := range map[string]view{
		"/":            d.overview,
		"/runs/{id}":   d.run,
		"/stuck":       d.stuck,
		"/failures":    d.failures,
		"/queues":      d.queuesPage,
		"/nodes":       d.nodes,
		"/boot":        d.boot,
		"/resources":   d.resources,
		"/deployments": d.deployments,

		"/nodes/{datacenter}/{node}": d.node,
		"/datacenters":               d.datacenters,
	} {
		routes.Get(pattern, d.show(v))
		routes.Get("/live"+pattern, d.stream(v))
	}
	for pattern, v := range map[string]view{ // for which datacenters are asked, or many events read: nothing does so every second
		"/runs/{id}/values":   d.values,
		"/runs/{id}/log":      d.log,
		"/runs/{id}/timeline": d.timeline,
		"/secrets":            d.secrets,
		"/usage":              d.usage,

		"/nodes/{datacenter}/{node}/log": d.nodeLog,
	} {
		routes.Get(pattern, d.show(v))
	}
	routes.Get("/static/*", d.serveFile)
	routes.Get("/login", d.login)
}

// policy allows what the pages are made of and nothing else; above all no script and no style that stands in a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// protect sets the headers of every answer. Pages show names that strangers chose, so the browser is told what it must not do with them.
func protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers call the origin of the login "null"
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// Refuse answers a browser that is not let in, with a page that shows nothing of the cluster.
func (d *Dashboard) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := writ.AsError(err)
	show := func(w http.ResponseWriter, r *http.Request) {
		d.write(w, r, e.Code.Info().Status, problemPage(e, true))
	}
	protect(http.HandlerFunc(show)).ServeHTTP(w, r)
}

// login is the page that hands in the code behind the # of its address, which the browser keeps to itself.
func (d *Dashboard) login(w http.ResponseWriter, r *http.Request) {
	d.write(w, r, http.StatusOK, &page{Title: "Log in", bare: true, body: loginPage{}})
}

// show answers with a whole page.
func (d *Dashboard) show(v view) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, newest, err := d.Ledger.EventRange(r.Context()) // before the lists: what comes meanwhile is told again, not left out
		var p *page
		if err == nil {
			p, err = v(r.Context(), r, false)
		}
		if err != nil {
			d.fail(w, r, err)
			return
		}
		if p.elsewhere != "" {
			w.Header().Set("HX-Redirect", p.elsewhere) // htmx cannot see where a redirect leads
			if r.Header.Get("HX-Request") == "" {
				http.Redirect(w, r, p.elsewhere, http.StatusSeeOther)
			}
			return
		}
		if len(p.Parts) > 0 {
			p.Live = liveURL(r.URL, newest)
		}
		d.write(w, r, http.StatusOK, p)
	}
}

// fail answers with a page that says what went wrong. The text of an internal error goes to the log only.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody is there to read it
	}
	e := writ.AsError(err)
	if e.Code == writ.CodeInternal {
		d.Log.ErrorContext(r.Context(), "show page", "path", r.URL.Path, "err", err)
		e = &writ.Error{Code: e.Code, Message: "the page cannot be shown", Hint: "the log of the coordinator says why"}
	}
	info := e.Code.Info()
	d.write(w, r, info.Status, problemPage(e, info.Kind == writ.Denied)) // whose role has ended is a stranger
}

func (d *Dashboard) write(w http.ResponseWriter, r *http.Request, status int, p *page) {
	reader := d.Reader(r.Context())
	p.Everything = reader.All
	if !p.bare {
		p.Reader, p.Until = reader.Name, reader.Until
		if d.Notice != nil {
			p.Notice = d.Notice(r.Context())
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, markup.Render(p.html()).String()) // an error means that nobody reads any more
}
