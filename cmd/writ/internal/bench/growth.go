package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"writ/cmd/writ/internal/bench/peer"
	"writ/internal/sleep"
)

// Growth measures how the cost of a call grows with the size of a site. Each size is a fresh site of real components: a
// coordinator, and in each datacenter a supervisor, a Redis, and nodes that speak the real protocol but simulate their
// drivers.
type Growth struct {
	Nodes []int // numbers of nodes of sites with one datacenter
	// Numbers of datacenters of further sites. Each of these datacenters has the first number of nodes.
	Datacenters []int
	Slots       int           // of each node
	Runs        int           // runs of ten sequential calls, several in flight
	InFlight    int           // number of these runs that are in flight at a time
	Fan         int           // number of calls in a run of independent calls
	Backlog     int           // runs that wait during a second measurement of sequential calls; 0 skips it
	Streams     int           // event streams during further measurements of sequential calls; 0 skips them
	History     int           // ended runs in the ledger of a coordinator whose lists are measured; 0 skips it
	Requests    int           // requests per list
	Postgres    string        // address of a server for journals and ledger, "" for files
	Profiles    string        // directory for CPU profiles of the processes of the first size, "" for none
	Idle        time.Duration // duration of the measurement without work
	Within      time.Duration // time limit for submitting the runs of a measurement
	Data        string        // data directory, which must be empty or missing
	Version     string
	Errors      io.Writer // log output of processes
	Log         *slog.Logger
	Note        func(format string, args ...any)
}

// GrowthReport holds the results of Growth.
type GrowthReport struct {
	Machine Machine      `json:"machine"`
	Redis   string       `json:"redis"`
	Stores  string       `json:"stores"` // where the supervisors' journals and the ledger are stored
	Slots   int          `json:"slots"`
	Sizes   []SizeReport `json:"sizes"`
	// Histories holds the times of a coordinator's lists, first with a tenth of the ended runs, then with all of them.
	Histories []HistoryReport `json:"histories,omitempty"`
}

// SizeReport holds the results for a site of one size.
type SizeReport struct {
	Datacenters int         `json:"datacenters"`
	Nodes       int         `json:"nodes"`        // of each datacenter
	JoinSeconds float64     `json:"join_seconds"` // from the start of the runners until all nodes are ready
	Idle        IdleFigures `json:"idle"`
	Together    LoadFigures `json:"together"` // runs of ten sequential calls, many in flight
	FanOut      LoadFigures `json:"fan_out"`  // runs of many independent calls, one at a time
	// Backlog holds the figures of Idle and Together while other runs wait. It is nil without such runs, and with several
	// datacenters.
	Backlog *BacklogReport `json:"backlog,omitempty"`
	// Streams holds the figures of Together while event streams are open. It is nil without streams.
	Streams *StreamsReport `json:"streams,omitempty"`
}

// BacklogReport holds the results for a site with waiting runs. The runs wait for an additional node.
type BacklogReport struct {
	Runs            int         `json:"runs"`
	BehindSlots     int         `json:"behind_slots"`     // runs whose call waits for a slot or occupies one
	BehindResources int         `json:"behind_resources"` // runs whose call waits for a resource of another run
	BehindRevisions int         `json:"behind_revisions"` // runs that wait for earlier revisions of their deployment
	Idle            IdleFigures `json:"idle"`             // while all runs wait
	Together        LoadFigures `json:"together"`
}

// Run runs the benchmark. After an error, it also returns the results so far.
func (g *Growth) Run(ctx context.Context) (r GrowthReport, err error) {
	if err := errors.Join(emptyDir(g.Data), makeProfiles(g.Profiles)); err != nil {
		return r, err
	}
	r.Slots = g.Slots
	if r.Machine, err = thisMachine(g.Data); err != nil {
		return r, err
	}
	for i, size := range g.sizes() {
		if err := g.size(ctx, filepath.Join(g.Data, fmt.Sprintf("size-%d", i+1)), &size, &r); err != nil {
			return r, fmt.Errorf("datacenters: %d, nodes: %d: %w", size.Datacenters, size.Nodes, err)
		}
		r.Sizes = append(r.Sizes, size)
	}
	if g.History > 0 {
		if err := g.history(ctx, filepath.Join(g.Data, "history"), &r); err != nil {
			return r, fmt.Errorf("history: %w", err)
		}
	}
	return r, nil
}

// sizes returns the sites to measure, without results.
func (g *Growth) sizes() (all []SizeReport) {
	for _, nodes := range g.Nodes {
		all = append(all, SizeReport{Datacenters: 1, Nodes: nodes})
	}
	for _, datacenters := range g.Datacenters {
		if datacenters > 1 { // Nodes lists the sites with one datacenter
			all = append(all, SizeReport{Datacenters: datacenters, Nodes: g.Nodes[0]})
		}
	}
	return all
}

// size measures one size in a fresh site.
func (g *Growth) size(ctx context.Context, dir string, size *SizeReport, r *GrowthReport) (err error) {
	g.Note("datacenters: %d, nodes of each: %d", size.Datacenters, size.Nodes)
	like := cluster{dir: dir, version: g.Version, log: g.Log, logs: g.Errors}
	if len(r.Sizes) == 0 {
		like.profiles = g.Profiles
	}
	o, err := beginSite(ctx, like, size.Datacenters, g.Postgres)
	defer func() { err = errors.Join(err, o.close()) }()
	if err != nil {
		return err
	}
	r.Redis, r.Stores = o.redisAbout(ctx), "files of SQLite"
	if o.postgres != nil {
		r.Stores = "PostgreSQL " + o.postgres.version
	}
	begun := time.Now()
	var joins errgroup.Group
	for i, c := range o.clusters {
		joins.Go(func() error { return c.addRunners(nodeNames(i+1, size.Nodes), g.Slots) })
	}
	if err := joins.Wait(); err != nil {
		return err
	}
	size.JoinSeconds = time.Since(begun).Seconds()
	m, err := newMeter(o)
	defer func() { err = errors.Join(err, m.close()) }()
	if err != nil {
		return err
	}
	return g.measure(o.clusters[0].ctx, m, size)
}

// measure measures a site whose nodes are ready: first without work, then with each workload.
func (g *Growth) measure(ctx context.Context, m *meter, size *SizeReport) (err error) {
	if size.Idle, err = g.idle(ctx, m, size.Datacenters*size.Nodes); err != nil {
		return err
	}
	steps := peer.Order{Runs: g.Runs, InFlight: g.InFlight, Calls: Steps, Within: g.Within}
	warm := steps
	warm.Runs = max(g.Runs/warmUpShare, 1)
	if _, err := take(m.own, warm); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if size.Together, err = m.load(ctx, steps, size.Idle); err != nil {
		return err
	}
	g.Note("%d calls in a row: %.1f runs/s", Steps, size.Together.RunsPerSecond)
	fan := peer.Order{
		Runs: max(g.Runs/fanOutShare, size.Datacenters), InFlight: 1, Calls: g.Fan, AtOnce: true, Within: g.Within,
	}
	if size.FanOut, err = m.load(ctx, fan, size.Idle); err != nil {
		return err
	}
	g.Note("%d calls at once: %.0f calls/s", g.Fan, size.FanOut.CallsPerSecond)
	if g.Streams > 0 {
		if size.Streams, err = g.streams(ctx, m, steps, size.Idle); err != nil {
			return err
		}
	}
	if g.Backlog > 0 && size.Datacenters == 1 {
		size.Backlog, err = g.behind(ctx, m, size.Nodes, steps)
	}
	return err
}

// idle measures the site while it has no work to do.
func (g *Growth) idle(ctx context.Context, m *meter, nodes int) (f IdleFigures, err error) {
	g.Note("idle for %s", g.Idle)
	if sleep.For(ctx, min(calmDown, g.Idle)) != nil {
		return f, context.Cause(ctx)
	}
	u, err := m.during(ctx, func() error { return sleep.For(ctx, g.Idle) })
	if err != nil {
		return f, err
	}
	f = idleFigures(u, nodes)
	g.Note("idle: %.1f %% of a core", f.Cores()*100)
	return f, nil
}

// behind measures runs of sequential calls on a number of nodes while other runs wait.
func (g *Growth) behind(ctx context.Context, m *meter, nodes int, steps peer.Order) (*BacklogReport, error) {
	s := m.own.clusters[0]
	if err := s.addRunners([]string{busyNode}, busySlots); err != nil {
		return nil, err
	}
	b := backlog{runs: g.Backlog, note: g.Note}
	if err := b.sign(s); err != nil {
		return nil, err
	}
	if _, _, err := b.fill(ctx, s.front); err != nil {
		return nil, fmt.Errorf("fill the backlog: %w", err)
	}
	if err := s.cordon(busyNode); err != nil { // a measured call would wait on this node for hours
		return nil, err
	}
	r := &BacklogReport{
		Runs: b.runs, BehindSlots: b.behindSlots(), BehindResources: b.behindResources, BehindRevisions: b.behindRevisions,
	}
	var err error
	if r.Idle, err = g.idle(ctx, m, nodes+1); err != nil {
		return nil, err
	}
	if r.Together, err = m.load(ctx, steps, r.Idle); err != nil {
		return nil, err
	}
	g.Note("%d runs wait, %d calls in a row: %.1f runs/s", b.runs, Steps, r.Together.RunsPerSecond)
	return r, nil
}

// nodeNames returns the names of the nodes of a datacenter. The names are unique among all datacenters, because type
// events stores the nodes of all datacenters by name.
func nodeNames(datacenter, nodes int) []string {
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprintf("dc%d-n%d", datacenter, i+1)
	}
	return names
}
