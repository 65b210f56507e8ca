// Package coord is a coordinator: it takes signed texts from people and CI, brings them to the datacenters that they name, and shows what
// the datacenters say. It knows HTTP, the ledger and the link. It must not know Redis or how scripts are evaluated, and it holds no key
// that could sign work: it can delay what people signed, and neither make nor change it.
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
	DefaultRequestsPerSecond = 1000 // of an address; a list counts as ten. A script that lists everything all the time stays below, a runaway loop does not
	// DefaultSubmissionsPerSecond leaves most of a datacenter to others: two cores carry out 300 runs of five calls a second. See docs/guarantees.md.
	DefaultSubmissionsPerSecond = 50
	// submissionsPerStatement is how many submissions a person's project may hand in for each statement that he signs: to cancel a run costs
	// its datacenter and its node more than to begin one.
	submissionsPerStatement = 5
	DefaultMaxStreams       = 256
)

// How long the ledger keeps what is only a copy.
const (
	keepEvents        = 7 * 24 * time.Hour
	keepRuns          = 90 * 24 * time.Hour
	keepRegistrations = 24 * time.Hour
	pruneEvery        = time.Hour
	expireEvery       = time.Second
	endsEvery         = time.Minute
)

// Coordinator is one coordinator. Fill in its fields, then call Serve, or Handler and Run. Everything that waits is in the ledger, so that
// a coordinator may be killed and started again at any time.
type Coordinator struct {
	Ledger    ledger.Ledger // required
	Log       *slog.Logger  // required
	PublicURL string        // required: how supervisors and browsers reach it, "https://writ.example.org"
	// Cluster is the cluster that it serves. It decides which first roster may be handed in; without it the ledger must have one.
	Cluster writ.ClusterID
	// OtherURLs are further addresses of this coordinator that supervisors may dial. If PublicURL is on loopback, any spelling of
	// loopback with the same port is one.
	OtherURLs []string
	// AllowedHosts are further names by which browsers and clients may ask for it.
	AllowedHosts []string
	// Coordinators are the addresses of other coordinators of the cluster; supervisors are told to keep a link to them too.
	Coordinators []string
	Version      string // of this program, shown to people

	RequestsPerSecond float64 // of one remote address, and of one person who has logged in; DefaultRequestsPerSecond if 0; twice as many at once
	// SubmissionsPerSecond bounds those of one project, if it is not 0; twice as many pass at once. A large one counts as several. A fifth of it
	// bounds the other statements of one person.
	SubmissionsPerSecond float64
	// DatacenterShare limits the bytes that the events of one datacenter take in the ledger. If it is 0, it follows from LedgerSpace.
	DatacenterShare int64
	// LedgerSpace returns the free space of the ledger's disk and the size of the ledger, 0 if the disk is unknown. It may be nil.
	LedgerSpace func() (free, ledger int64)
	MaxStreams  int // open event streams, DefaultMaxStreams if 0
	// Grace is how long requests that are being answered may go on after it was told to end; 10 s if 0.
	Grace time.Duration
	// Self is what the roster says of this coordinator. Reading needs a login then; without it everybody who reaches it reads everything.
	Self *Self
	// TLS is how Serve listens; plain text if nil.
	TLS *tls.Config
	// Certificates describes those of this coordinator; nil if it has none.
	Certificates func() ([]writ.Certificate, error)
	// PublicCertificate returns the times between which the certificate that TLS shows to browsers can be used; nil if it shows none to them.
	PublicCertificate func() (from, until time.Time)
	// Webhooks are addresses that are told what happens, as an operator has chosen.
	Webhooks []webhook.Endpoint
	// Collectors give further metrics, of the process that this coordinator is.
	Collectors []prometheus.Collector
	// Record takes the spans of runs; nil if there are no traces.
	Record func(s tracing.Span)
	// SkipEarlyCheckForTest passes on what the early check would refuse, to prove that supervisors refuse by themselves.
	SkipEarlyCheckForTest bool
	// Now is the clock by which signed texts are verified; time.Now if nil.
	Now func() time.Time

	once      sync.Once
	links     *link.Listener
	rosters   rosters
	news      broadcast // something was stored: whoever waits for it looks again
	tail      *tail     // of the ledger's events, for streams
	followed  int64     // the newest event of the ledger at the last look; of the follower alone
	outbox    outbox
	metrics   *metrics
	streams   limit.Shares
	lines     limit.Lines   // of what others cause
	stopping  chan struct{} // closed when Run ends: streams end then
	limits    limit.Addresses
	bodies    limit.Bodies
	answers   limit.Bodies // large ones that are being sent
	strangers strangers
	projects  limit.Names // what they hand in
	signers   limit.Names // what else people sign
	readers   limit.Names // what people who have logged in ask for
	quota     quota
	shares    shares
	names     httpguard.Guard
	probe     probe
	handler   http.Handler
	pages     *dashboard.Dashboard
	logins    *logins
	expiring  datacenterEnds
}

// init readies what the methods share; it starts nothing.
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

// Handler serves the API, the dashboard and the links. It works while Run does.
func (c *Coordinator) Handler() http.Handler {
	c.init()
	return c.handler
}

// Run does what no request asks for: it expires submissions and forgets what is old. It returns nil when ctx ends and all links are closed.
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
		return writ.Errorf(writ.CodeUsage, "%q is not how a coordinator can be reached", c.PublicURL).WithHint("it looks like https://writ.example.org")
	}
	return nil
}

// every calls do at once and then again and again until ctx ends.
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

// prune forgets what is old.
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

// News returns a channel that is closed when something is stored in the ledger after the call, or when a run waits for another reason.
func (c *Coordinator) News() <-chan struct{} { return c.news.next() }

// broadcast wakes everybody who waits for news.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed at the next wake. Whoever looks for news takes it first, so that none is missed.
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

// verifier is the early check, by the newest roster.
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
