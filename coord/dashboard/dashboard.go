// Package dashboard serves a coordinator's web pages for operators: running and waiting work, its location, and
// failures. It reads the ledger and queries the datacenters. It changes no state, and its only form with an effect is
// the logout. It verifies no signatures: signed texts are shown as text. The pages are plain HTML that works without
// scripts; with scripts, a page is updated as the ledger changes.
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

// Ledger is the part of ledger.Ledger that the pages read.
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
	Deployments(
		ctx context.Context, filter ledger.ResourceFilter, page ledger.Page,
	) (ledger.List[ledger.Deployment], error)
	Events(
		ctx context.Context, after int64, filter ledger.EventFilter, max int,
	) (events []ledger.Event, more bool, err error)
	Usage(ctx context.Context, filter ledger.UsageFilter, page ledger.Page) (ledger.List[ledger.Usage], error)
	UsageOfProjects(
		ctx context.Context, filter ledger.UsageFilter, page ledger.Page,
	) (ledger.List[ledger.ProjectUsage], error)
	EventRange(ctx context.Context) (oldest, newest int64, err error)
}

// LiveView provides the live state of the datacenters.
type LiveView interface {
	// Datacenters lists the datacenters of the roster with their health.
	Datacenters(ctx context.Context) ([]api.Datacenter, error)
	// Queues asks every datacenter for the depth of its queues. The entry of an unreachable one has an error.
	Queues(ctx context.Context) ([]api.DatacenterQueues, error)
	// Holds asks all datacenters, or only one, for their holds. The entry of an unreachable one has an error.
	Holds(ctx context.Context, only writ.DatacenterID) ([]api.DatacenterHolds, error)
	// Boots asks all datacenters, or only one, for their booting machines: their number, and at most the `most` newest
	// of each. The entry of an unreachable one has an error.
	Boots(ctx context.Context, only writ.DatacenterID, most int) ([]api.DatacenterBoots, error)
	// Why returns the reason why each run waits, like the API.
	Why(ctx context.Context, runs ...ledger.Run) (map[writ.RunID]writ.Reason, error)
	// Certificate returns the certificate that signed a submission, nil if it was signed by a plain key.
	Certificate(ctx context.Context, signed []byte) (*identity.Certificate, error)
	// Output returns the output of a run from the summary that its datacenter signed, nil if there is none.
	Output(ctx context.Context, run ledger.Run) (map[string]any, error)
	// Secrets asks all datacenters, or only one, for the secrets of some projects. Without projects it lists those of
	// all. The entry of an unreachable datacenter has an error.
	Secrets(ctx context.Context, only writ.DatacenterID, projects []writ.ProjectID) ([]api.DatacenterSecrets, error)
	// Values asks the datacenter of a run for its output, and for the arguments and results of its calls with a number
	// above after.
	Values(ctx context.Context, run writ.RunID, after int) (api.RunValues, error)
	// LogLines asks the datacenter of a run for at most max log lines after line `after`.
	LogLines(ctx context.Context, run writ.RunID, after, max int) ([]writ.LogLine, error)
	// NodeLog asks a node, through its datacenter, for lines of its log.
	NodeLog(ctx context.Context, datacenter writ.DatacenterID, query link.LogOfNode) (api.NodeLog, error)
	// News returns a channel that is closed when the ledger stores a row after the call.
	News() <-chan struct{}
}

// DefaultMaxStreams limits the pages with live updates. Further pages show the state of their last reload.
const DefaultMaxStreams = 256

// Dashboard serves the pages of one coordinator. Set its fields, then call Register, which starts no goroutines. Run
// samples the queues for their charts.
type Dashboard struct {
	Ledger   Ledger       // required
	LiveView LiveView     // required
	Log      *slog.Logger // required
	// Stopping is closed when the coordinator stops, which ends the streams. It may be nil.
	Stopping <-chan struct{}
	// Reader returns the reader of an admitted request. Required.
	Reader func(ctx context.Context) Reader
	// Notice returns the banner at the top of every page, "" for none. It may be nil.
	Notice func(ctx context.Context) string
	// Still returns an error if the sender of a request has lost the right to read. It is called before each frame; it
	// may be nil.
	Still func(ctx context.Context) error
	// Ends lists the expiring items, such as roles and certificates. It may be nil.
	Ends func(ctx context.Context) []identity.Expiry
	// LedgerDown reports whether the ledger was unusable at its last check. It may be nil.
	LedgerDown func() bool
	// MaxStreams limits the open streams; DefaultMaxStreams if 0.
	MaxStreams int

	streams limit.Shares
	now     pulse
	past    history
	texts   texts
	counted counted
}

// Reader describes the reader of a page. The zero value may read nothing.
type Reader struct {
	Name     string           // the logged-in person in the roster, or ""
	Until    time.Time        // end of the login
	All      bool             // reads all projects, and the nodes and queues, which belong to no project
	Projects []writ.ProjectID // readable projects if All is false
	// May reports whether the reader's role permits an action in a project, "" for all projects. Pages offer commands
	// accordingly. It is nil without a login; pages then offer all commands, because every command must be signed
	// anyway.
	May func(action identity.Action, project writ.ProjectID) bool
}

// ends returns the expiring items.
func (d *Dashboard) ends(ctx context.Context) []identity.Expiry {
	if d.Ends == nil {
		return nil
	}
	return d.Ends(ctx)
}

// may reports whether pages offer the command for an action to the reader.
func (r Reader) may(action identity.Action, project writ.ProjectID) bool {
	return r.May == nil || r.May(action, project)
}

// maySubmit reports whether the reader may submit a script to one of these projects.
func (r Reader) maySubmit(projects []identity.Project) bool {
	return slices.ContainsFunc(projects, func(p identity.Project) bool { return r.may(identity.ActionSubmit, p.ID) })
}

// Reads reports whether the reader may read the resources of a project.
func (r Reader) Reads(project writ.ProjectID) bool {
	return r.All || slices.Contains(r.Projects, project)
}

// runOf returns a run that the sender of a request may read. The error is the same for an unreadable run and a missing
// one.
func (d *Dashboard) runOf(ctx context.Context, id writ.RunID) (ledger.Run, error) {
	run, err := d.Ledger.Run(ctx, id)
	if err == nil && !d.Reader(ctx).Reads(run.Project) {
		return ledger.Run{}, ledger.NotThere("run", id)
	}
	return run, err
}

// view builds the page of a request, both for loading and for live updates. If quiet is true, the ledger has no new
// events since the reader's page was built, and the view may omit the parts that depend on the ledger only.
type view func(ctx context.Context, r *http.Request, quiet bool) (*page, error)

// Pages by subject. Each method is a view, or a step of one.
type (
	listPages     struct{ *Dashboard } // runs, failures and stuck work
	nodePages     struct{ *Dashboard } // datacenters, nodes, queues and booting machines
	resourcePages struct{ *Dashboard } // resources, deployments, secrets and usage
	runPages      struct{ *Dashboard } // one run
)

// Register adds the pages to routes, and the streams and files that they need below /live/ and /static/. It is called
// once. Methods other than GET are left to routes.
func (d *Dashboard) Register(routes chi.Router) {
	if d.MaxStreams <= 0 {
		d.MaxStreams = DefaultMaxStreams
	}
	d.streams.Size = d.MaxStreams

	routes = routes.With(protect)
	runs, lists, nodes, resources := runPages{d}, listPages{d}, nodePages{d}, resourcePages{d}
	for pattern, v := range map[string]view{
		"/":            lists.overview,
		"/runs/{id}":   runs.run,
		"/stuck":       lists.stuck,
		"/failures":    lists.failures,
		"/queues":      nodes.queuesPage,
		"/nodes":       nodes.nodes,
		"/boot":        nodes.boot,
		"/resources":   resources.resources,
		"/deployments": resources.deployments,

		"/nodes/{datacenter}/{node}": nodes.node,
		"/datacenters":               nodes.datacenters,
	} {
		routes.Get(pattern, d.show(v))
		routes.Get("/live"+pattern, d.stream(v))
	}
	// These query datacenters or read many events, so they have no live updates every second.
	for pattern, v := range map[string]view{
		"/runs/{id}/values":   runs.values,
		"/runs/{id}/log":      runs.log,
		"/runs/{id}/timeline": runs.timeline,
		"/secrets":            resources.secrets,
		"/usage":              resources.usage,

		"/nodes/{datacenter}/{node}/log": nodes.nodeLog,
	} {
		routes.Get(pattern, d.show(v))
	}
	routes.Get("/static/*", d.serveFile)
	routes.Get("/login", d.login)
}

// policy permits the parts of the pages and nothing else, in particular no inline scripts and styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// protect sets the security headers of all responses. Pages show names that strangers chose, so browsers must not run
// or embed such content.
func protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers send the origin "null" with the login
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// Refuse answers a browser that was not admitted, with a page that reveals nothing about the cluster.
func (d *Dashboard) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := writ.AsError(err)
	show := func(w http.ResponseWriter, r *http.Request) {
		d.write(w, r, e.Code.Info().Status, problemPage(e, true))
	}
	protect(http.HandlerFunc(show)).ServeHTTP(w, r)
}

// login serves the page that submits the code after the # of its address. Browsers do not send that part to the server.
func (d *Dashboard) login(w http.ResponseWriter, r *http.Request) {
	d.write(w, r, http.StatusOK, &page{Title: "Log in", bare: true, body: loginPage{}})
}

// show serves a whole page.
func (d *Dashboard) show(v view) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// Before the lists, so that later events are repeated, not lost.
		_, newest, err := d.Ledger.EventRange(r.Context())
		var p *page
		if err == nil {
			p, err = v(r.Context(), r, false)
		}
		if err != nil {
			d.fail(w, r, err)
			return
		}
		if p.elsewhere != "" {
			w.Header().Set("HX-Redirect", p.elsewhere) // htmx cannot see the target of a redirect
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

// fail serves a page with an error. The text of an internal error is only logged.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client is gone
	}
	e := api.AsError(err)
	if after := api.RetryAfter(e.Code); after != "" {
		w.Header().Set("Retry-After", after)
	}
	if e.Code == writ.CodeInternal {
		d.Log.ErrorContext(r.Context(), "show page", "path", r.URL.Path, "err", err)
		e = &writ.Error{Code: e.Code, Message: "the page cannot be shown", Hint: "see the log of the coordinator"}
	}
	info := e.Code.Info()
	d.write(w, r, info.Status, problemPage(e, info.Kind == writ.Denied)) // a person whose role has ended is a stranger
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
	_, _ = io.WriteString(w, markup.Render(p.html()).String()) // an error means that the client is gone
}
