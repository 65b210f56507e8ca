// Package coord implements the coordinator. It accepts signed texts from people and CI, delivers them to the
// datacenters that they name, and shows the state that datacenters report. It depends on HTTP, the ledger and the link.
// It must not depend on Redis or on the evaluation of scripts, and it has no key that could sign work: it can delay
// signed work but cannot create or change it.
package coord

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"writ"
	"writ/coord/dashboard"
	"writ/coord/webhook"
	"writ/identity"
	"writ/internal/httpguard"
	"writ/internal/limit"
	"writ/internal/tracing"
	"writ/ledger"
	"writ/supervisor/link"
)

// Defaults of a Coordinator's fields.
const (
	// DefaultRequestsPerSecond limits requests per client address. A list request costs ten. A script that lists
	// everything in a loop stays below the limit, a runaway loop does not.
	DefaultRequestsPerSecond = 1000
	// DefaultSubmissionsPerSecond leaves most of a datacenter to other projects: two cores carry out 300 runs of five
	// calls a second. See docs/guarantees.md.
	DefaultSubmissionsPerSecond = 50
	// submissionsPerStatement is the number of submissions that a project may hand in for each statement that one
	// person may sign. Cancelling a run costs its datacenter and its node more than starting one.
	submissionsPerStatement = 5
	DefaultMaxStreams       = 256
)

// Retention times of the ledger's copies, and the intervals of periodic work.
const (
	keepEvents        = 7 * 24 * time.Hour
	keepRuns          = 90 * 24 * time.Hour
	keepRegistrations = 24 * time.Hour
	pruneEvery        = time.Hour
	expireEvery       = time.Second
	endsEvery         = time.Minute
)

// Coordinator runs one coordinator. Set its fields, then call Serve, or Handler and Run. All pending work is in the
// ledger, so a coordinator may be killed and restarted at any time.
type Coordinator struct {
	Ledger    ledger.Ledger // required
	Log       *slog.Logger  // required
	PublicURL string        // required: the URL for supervisors and browsers, "https://writ.example.org"
	// Cluster is the cluster of this coordinator. It decides which first roster is accepted; if it is empty, the ledger
	// must already have a roster.
	Cluster writ.ClusterID
	// OtherURLs are further addresses of this coordinator that supervisors may dial. If PublicURL is on loopback, every
	// spelling of loopback with the same port is accepted as well.
	OtherURLs []string
	// AllowedHosts are further host names that browsers and clients may use.
	AllowedHosts []string
	// Coordinators are the addresses of the other coordinators of the cluster. Supervisors keep a link to each of them.
	Coordinators []string
	Version      string // version of this program, shown to people

	// RequestsPerSecond limits the requests of one remote address, and those of one logged-in person. 0 means
	// DefaultRequestsPerSecond. Bursts may be twice as large.
	RequestsPerSecond float64
	// SubmissionsPerSecond limits the submissions of one project; 0 means no limit. Bursts may be twice as large. A
	// large submission counts as several. The other statements of one person are limited to a fifth of it.
	SubmissionsPerSecond float64
	// DatacenterShare limits the bytes of one datacenter's events in the ledger. 0 derives the limit from LedgerSpace.
	DatacenterShare int64
	// LedgerSpace returns the free space of the ledger's disk and the size of the ledger, 0 if the disk is unknown. It
	// may be nil.
	LedgerSpace func() (free, ledger int64)
	MaxStreams  int // open event streams, DefaultMaxStreams if 0
	// Grace limits how long in-flight requests may run after shutdown begins; 10 s if 0.
	Grace time.Duration
	// Self identifies this coordinator in the roster. If set, reading needs a login; if nil, every client may read
	// everything.
	Self *Self
	// TLS configures the listener of Serve; nil means plain text.
	TLS *tls.Config
	// Certificates describes the certificates of this coordinator; nil if it has none.
	Certificates func() ([]writ.Certificate, error)
	// PublicCertificate returns the validity period of the TLS certificate for browsers; nil if there is no such
	// certificate.
	PublicCertificate func() (from, until time.Time)
	// Webhooks are the endpoints that an operator has configured for notifications.
	Webhooks []webhook.Endpoint
	// Collectors provide further metrics about the process of this coordinator.
	Collectors []prometheus.Collector
	// Record receives the spans of runs; nil disables tracing.
	Record func(s tracing.Span)
	// SkipEarlyCheckForTest forwards texts that the early check would reject, to prove that supervisors reject them.
	SkipEarlyCheckForTest bool
	// Now is the clock for the verification of signed texts; time.Now if nil.
	Now func() time.Time

	once      sync.Once
	links     *link.Listener
	rosters   rosters
	news      broadcast // signals waiters that the ledger has new rows
	tail      *tail     // newest ledger events, for streams
	followed  int64     // newest ledger event at the last follow; used by follow only
	outbox    outbox
	metrics   *metrics
	streams   limit.Shares
	lines     limit.Lines   // rate-limited log lines about the input of others
	stopping  chan struct{} // closed when Run ends, which ends the streams
	limits    limit.Addresses
	bodies    limit.Bodies
	answers   limit.Bodies // large responses in flight
	strangers strangers
	projects  limit.Names // rate of submissions by project
	signers   limit.Names // rate of other statements by signer
	readers   limit.Names // rate of requests by logged-in person
	quota     quota
	shares    shares
	names     httpguard.Guard
	probe     probe
	handler   http.Handler
	pages     *dashboard.Dashboard
	logins    *logins
	expiring  datacenterEnds
}

// init prepares the shared state of all methods. It starts no goroutines.
func (c *Coordinator) init() {
	c.once.Do(func() {
		if c.Now == nil {
			c.Now = time.Now
		}
		if c.MaxStreams <= 0 {
			c.MaxStreams = DefaultMaxStreams
		}
		if c.RequestsPerSecond <= 0 {
			c.RequestsPerSecond = DefaultRequestsPerSecond
		}
		c.tail = &tail{ledger: c.Ledger, log: c.Log, stored: c.news.next, limit: tailBytes, watched: make(chan struct{}, 1)}
		c.streams.Size = c.MaxStreams
		c.strangers.bodies.Size = strangersBodies
		c.rosters.pages = newRosterPages()
		c.stopping = make(chan struct{})
		c.quota.signer, c.quota.all = signerWaits, allWait
		c.names = httpguard.Guard{
			Names: slices.Concat([]string{c.PublicURL}, c.OtherURLs, c.AllowedHosts),
			Hint:  "use its address, " + c.PublicURL + ", or have it started with --allowed-host",
		}
		c.limits.PerSecond = c.RequestsPerSecond
		c.readers.PerSecond = c.RequestsPerSecond
		c.projects.PerSecond = c.SubmissionsPerSecond
		c.signers.PerSecond = c.SubmissionsPerSecond / submissionsPerStatement
		c.links = &link.Listener{
			Authenticate: c.authenticate,
			Welcome:      c.welcome,
			Events:       sink{c},
			Verbs:        link.ToCoordinator,
			HandlerFor:   func(link.Hello) link.Handler { return c.answer },
			Connected:    c.attend,
			Log:          c.Log,
		}
		c.metrics = newMetrics(c)
		c.logins = newLogins()
		c.pages = &dashboard.Dashboard{
			Ends: func(context.Context) []identity.Expiry { return c.ends() },

			LedgerDown: func() bool { return c.probe.state.Load() == ledgerDown },
			Ledger:     nodesNow{c.Ledger, c}, LiveView: c, Log: c.Log, Stopping: c.stopping, MaxStreams: c.MaxStreams, Notice: c.notice, Still: c.still, Reader: c.pageReader,
		}
		c.handler = c.routes()
	})
}

// Handler serves the API, the dashboard and the links. It needs Run to be running.
func (c *Coordinator) Handler() http.Handler {
	c.init()
	return c.handler
}

// Run does the periodic work: it expires submissions, prunes the ledger and delivers webhooks. It returns nil when ctx
// ends and all links are closed.
func (c *Coordinator) Run(ctx context.Context) error {
	c.init()
	if err := c.validate(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return every(ctx, expireEvery, c.expire) })
	group.Go(func() error { return c.watchLedger(ctx) })
	group.Go(func() error { return every(ctx, pruneEvery, c.prune) })
	warned := make(identity.Warned)
	group.Go(func() error { return every(ctx, endsEvery, func(ctx context.Context) { c.warnOfEnds(ctx, warned) }) })
	group.Go(func() error { return c.followEnds(ctx) })
	group.Go(func() error { return c.tail.run(ctx) })
	group.Go(func() error { return c.pages.Run(ctx) })
	if len(c.Webhooks) > 0 {
		group.Go(func() error { return c.webhooks().Run(ctx) })
	}
	if c.Record != nil {
		group.Go(func() error { return c.spans().Run(ctx) })
	}
	if c.sharesLedger() {
		group.Go(func() error { return every(ctx, followEvery, c.follow) })
	}
	group.Go(func() error {
		<-ctx.Done()
		close(c.stopping)
		c.links.Close()
		return nil
	})
	return group.Wait()
}

func (c *Coordinator) validate() error {
	if c.Ledger == nil || c.Log == nil {
		return errors.New("a coordinator needs a ledger and a log")
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return writ.Errorf(writ.CodeUsage, "%q is not a valid URL of a coordinator", c.PublicURL).WithHint("it looks like https://writ.example.org")
	}
	return nil
}

// every calls do at once and then at each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, do func(ctx context.Context)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// prune deletes old events, runs and registrations from the ledger.
func (c *Coordinator) prune(ctx context.Context) {
	now := time.Now()
	err := errors.Join(
		c.Ledger.Prune(ctx, now.Add(-keepEvents), now.Add(-keepRuns)),
		c.Ledger.RemoveRegistrations(ctx, now.Add(-keepRegistrations)),
	)
	if err != nil && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "prune the ledger; trying again later", "err", err, "retry_in", pruneEvery)
	}
}

// News returns a channel that is closed when the ledger stores a row after the call, or when a run waits for another
// reason.
func (c *Coordinator) News() <-chan struct{} { return c.news.next() }

// broadcast wakes all waiters.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed by the following wake. Callers get the channel before they read the state, so
// that they miss no change.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// verifier returns the early check against the newest roster.
func (c *Coordinator) verifier(ctx context.Context) (*identity.Verifier, error) {
	roster, err := c.rosters.newest(ctx, c)
	if err != nil {
		return nil, err
	}
	return &identity.Verifier{
		Roster: roster,
		Now:    c.Now,
		ProjectOf: func(id writ.RunID) (writ.ProjectID, error) {
			run, err := c.Ledger.Run(ctx, id)
			return run.Project, err
		},
		Forked: func(signer string, err error) {
			if c.rosters.forks.First(err) {
				c.Log.Error("two rosters of one version exist", "signer", signer, "code", writ.CodeOf(err), "err", err)
			}
		},
	}, nil
}
