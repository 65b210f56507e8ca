// Package coord implements the coordinator. It accepts signed texts from people and CI, delivers them to the
// datacenters that they name, and shows the state that datacenters report. It depends on HTTP, the ledger and the link.
// It must not depend on Redis or on the evaluation of scripts, and it has no key that could sign work: it can delay
// signed work but cannot create or change it.
package coord

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"writ/coord/access"
	"writ/coord/dashboard"
	"writ/coord/delivery"
	"writ/coord/expiry"
	"writ/coord/front"
	"writ/coord/live"
	"writ/coord/rosters"
	"writ/coord/spans"
	"writ/coord/stream"
	"writ/coord/webhook"
	"writ/identity"
	"writ/identity/expiring"
	"writ/internal/broadcast"
	"writ/internal/httpguard"
	"writ/internal/limit"
	"writ/internal/sleep"
	"writ/ledger"
	"writ/supervisor/link"
)

// Intervals of periodic work.
const (
	pruneEvery  = time.Hour
	expireEvery = time.Second
	endsEvery   = time.Minute
)

// Coordinator runs one coordinator. All pending work is in the ledger, so a coordinator may be killed and restarted at
// any time.
type Coordinator struct {
	Config

	links     *link.Listener
	rosters   *rosters.Store
	addresses rosters.Addresses
	news      broadcast.Signal // signals waiters that the ledger has new rows
	followed  int64            // newest ledger event at the last follow; used by follow only
	delivery  *delivery.Service
	monitor   *monitor
	streams   *stream.Server
	lines     limit.Lines   // limits repeated log lines about input from clients and datacenters
	stopping  chan struct{} // closed when Run ends, which ends the streams
	shares    shares
	probe     probe
	refusals  *access.Refusals
	logins    *access.Logins
	gate      *access.Gate
	front     *front.Front
	handler   http.Handler
	pages     *dashboard.Dashboard
	live      *live.View
	explain   *explainer
	expiring  expiry.Datacenters
	expiries  expiry.Watch
}

// New returns a coordinator. It starts no goroutines: call Serve, or Handler and Run.
func New(config Config) (*Coordinator, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	c := &Coordinator{Config: config.withDefaults(), stopping: make(chan struct{})}
	c.probe.ledger, c.probe.log, c.probe.news = c.Ledger, c.Log, &c.news
	c.rosters = rosters.New(c.Ledger, c.Cluster, c.Now, c.Log)
	c.rosters.Adopted = func(previous, next *identity.Roster) {
		c.news.Wake() // open pages recheck the rights of their readers
		supervisors{c}.endStrangers(previous, next)
	}
	c.expiries = expiry.Watch{
		Roster: c.rosters.Current, Now: c.Now, Log: c.Log, PublicURL: c.PublicURL,
		Certificates: c.Certificates, Public: c.PublicCertificate, Datacenters: c.expiring.List,
	}
	c.addresses = rosters.Addresses{
		Configured: append([]string{c.PublicURL}, c.OtherURLs...), TLS: c.TLS != nil, Rosters: c.rosters,
	}
	if c.Self != nil {
		c.addresses.ID = c.Self.ID
	}
	c.links = &link.Listener{
		Authenticate: supervisors{c}.authenticate,
		Welcome:      supervisors{c}.welcome,
		Events:       supervisors{c},
		Verbs:        link.ToCoordinator,
		HandlerFor:   func(link.Hello) link.Handler { return supervisors{c}.answer },
		Connected:    func(ctx context.Context, s *link.Session) { c.delivery.Attend(ctx, s) },
		Log:          c.Log,
	}
	c.live = &live.View{
		Links: c.links, Ledger: c.Ledger, Rosters: c.rosters,
		Still: func(ctx context.Context) error { return c.gate.Still(ctx) },
	}
	c.expiring.View, c.expiring.Now = c.live, c.Now
	c.streams = stream.New(stream.Config{
		Ledger: c.Ledger, Log: c.Log, News: &c.news, Rights: &c.rosters.Changed, Stopping: c.stopping, Max: c.MaxStreams,
		Still: func(ctx context.Context) error { return c.gate.Still(ctx) },
	})
	c.monitor = newMonitor(c)
	c.guard()
	c.delivery = delivery.New(delivery.Config{
		Ledger: c.Ledger, Rosters: c.rosters, Links: c.links, Refusals: c.refusals, Lines: &c.lines, News: &c.news,
		Log: c.Log, Now: c.Now, SubmissionsPerSecond: c.SubmissionsPerSecond, SkipEarlyCheck: c.SkipEarlyCheckForTest,
	}, c.monitor.registry)
	if reporter, ok := c.Ledger.(ledger.UnreadableReporter); ok {
		reporter.OnUnreadable(c.delivery.NoteUnreadable)
	}
	c.explain = &explainer{c.Ledger, c.links, c.rosters, c.delivery}
	c.pages = &dashboard.Dashboard{
		Ends: func(context.Context) []expiring.Item { return c.expiries.All() },

		LedgerDown: c.probe.down,
		Ledger:     nodesNow{c.Ledger, c.live}, LiveView: pageView{c.live, c}, Log: c.Log, Stopping: c.stopping,
		MaxStreams: c.MaxStreams,
		Notice:     func(ctx context.Context) string { return c.expiries.Notice(access.ViewerOf(ctx).All) },
		Still:      c.gate.Still,
		Reader:     c.pageReader,
	}
	c.handler = c.routes()
	return c, nil
}

// guard builds the parts that admit or reject requests.
func (c *Coordinator) guard() {
	c.refusals = &access.Refusals{Count: c.monitor.refusals, Lines: &c.lines}
	c.logins = access.NewLogins(access.Logins{
		Self: c.Self, PublicURL: c.PublicURL, Addresses: c.addresses.List, Rosters: c.rosters, Now: c.Now, Log: c.Log,
	})
	c.gate = &access.Gate{
		Public: c.Self == nil, Rosters: c.rosters, Ledger: c.Ledger, Logins: c.logins,
		Browsers: &access.Browsers{Logins: c.logins, Secure: strings.HasPrefix(c.PublicURL, "https:")},
	}
	c.front = front.New(c.monitor.registry)
	c.front.Log, c.front.Gate, c.front.Refusals = c.Log, c.gate, c.refusals
	c.front.RefusePage = func(w http.ResponseWriter, r *http.Request, err error) { c.pages.Refuse(w, r, err) }
	c.front.Rates.PerSecond, c.front.Readers.PerSecond = c.RequestsPerSecond, c.RequestsPerSecond
	c.front.Names = httpguard.Guard{
		Names: slices.Concat([]string{c.PublicURL}, c.OtherURLs, c.AllowedHosts),
		Hint:  "use its address, " + c.PublicURL + ", or start the coordinator with --allowed-host",
	}
}

// Handler serves the API, the dashboard and the links. It needs Run to be running.
func (c *Coordinator) Handler() http.Handler { return c.handler }

// Run does the periodic work: it expires submissions, prunes the ledger and delivers webhooks. It returns nil when ctx
// ends and all links are closed.
func (c *Coordinator) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	periodically := func(interval time.Duration, do func(ctx context.Context)) {
		group.Go(func() error { sleep.Every(ctx, interval, do); return nil })
	}
	periodically(expireEvery, c.delivery.Expire)
	periodically(cmp.Or(c.probe.every, watchLedger), c.probe.watch)
	periodically(pruneEvery, c.prune)
	periodically(endsEvery, c.expiries.Warn)
	group.Go(func() error { return c.expiring.Run(ctx) })
	group.Go(func() error { return c.streams.Run(ctx) })
	group.Go(func() error { return c.pages.Run(ctx) })
	if len(c.Webhooks) > 0 {
		group.Go(func() error { return c.webhooks().Run(ctx) })
	}
	if c.Record != nil {
		group.Go(func() error { return c.spans().Run(ctx) })
	}
	if c.sharesLedger() {
		periodically(followEvery, c.follow)
	}
	group.Go(func() error {
		<-ctx.Done()
		close(c.stopping)
		c.links.Close()
		return nil
	})
	return group.Wait()
}

// AddRoster verifies the next roster, or the first roster of the cluster, and stores it; couriers send it to the
// datacenters. A known roster is not an error. A link is a signed roster as package chain defines it.
func (c *Coordinator) AddRoster(ctx context.Context, link []byte) (version int, err error) {
	return c.rosters.Add(ctx, link)
}

// webhooks returns the sender of webhooks.
func (c *Coordinator) webhooks() *webhook.Sender {
	return &webhook.Sender{
		Endpoints: c.Webhooks, Ledger: c.Ledger, News: c.news.Next, Ends: c.expiries.All,
		DatacenterName: c.rosters.DatacenterName, ProjectName: c.rosters.ProjectName,
		PublicURL: strings.TrimSuffix(c.PublicURL, "/"), Version: c.Version, Now: c.Now, Log: c.Log,
		Tried: func(endpoint, outcome string) { c.monitor.webhooks.WithLabelValues(endpoint, outcome).Inc() },
	}
}

// spans returns the recorder of the spans of runs.
func (c *Coordinator) spans() *spans.Recorder {
	return &spans.Recorder{
		Ledger: c.Ledger, News: c.news.Next, Record: c.Record, DatacenterName: c.rosters.DatacenterName, Log: c.Log,
	}
}
