package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"writ/cmd/writ/internal/bench/peer"
	"writ/internal/sleep"
)

// Growth measures how the cost of a call grows with the size of a site. Each size has a fresh datacenter of real
// components: a supervisor, a Redis, and nodes that speak the real protocol but simulate their drivers.
type Growth struct {
	Nodes    []int         // sizes, in nodes
	Slots    int           // of each node
	Runs     int           // runs of ten sequential calls, several in flight
	InFlight int           // concurrent runs of them
	Fan      int           // calls of a run that makes them all at once
	Backlog  int           // runs that wait while runs of sequential calls are measured again; 0 for no such measurement
	Idle     time.Duration // duration of the measurement without work
	Within   time.Duration // time limit for submitting the runs of a measurement
	Data     string        // data directory, which must be empty or missing
	Version  string
	Errors   io.Writer // log output of processes
	Log      *slog.Logger
	Note     func(format string, args ...any)
}

// GrowthReport holds the results of Growth.
type GrowthReport struct {
	Machine Machine      `json:"machine"`
	Redis   string       `json:"redis"`
	Slots   int          `json:"slots"`
	Sizes   []SizeReport `json:"sizes"`
}

// SizeReport holds the results for a site of one size.
type SizeReport struct {
	Nodes       int         `json:"nodes"`
	JoinSeconds float64     `json:"join_seconds"` // from the start of the runners until all nodes are ready
	Idle        IdleFigures `json:"idle"`
	Together    LoadFigures `json:"together"` // runs of ten sequential calls, many in flight
	FanOut      LoadFigures `json:"fan_out"`  // runs of many independent calls, one at a time
	// The same as Idle and Together while other runs wait; nil if none were asked for.
	Backlog *BacklogReport `json:"backlog,omitempty"`
}

// BacklogReport holds the results for a site with waiting runs. They wait at a further node.
type BacklogReport struct {
	Runs            int         `json:"runs"`
	BehindSlots     int         `json:"behind_slots"`     // runs with a call that waits for a slot or runs on the node
	BehindResources int         `json:"behind_resources"` // runs with a call that waits for a resource of another run
	BehindRevisions int         `json:"behind_revisions"` // runs that wait for earlier revisions of their deployment
	Idle            IdleFigures `json:"idle"`             // while all runs wait
	Together        LoadFigures `json:"together"`
}

// Run runs the benchmark. After an error, it also returns the results so far.
func (g *Growth) Run(ctx context.Context) (r GrowthReport, err error) {
	if err := emptyDir(g.Data); err != nil {
		return r, err
	}
	r.Slots = g.Slots
	if r.Machine, err = thisMachine(g.Data); err != nil {
		return r, err
	}
	for i, nodes := range g.Nodes {
		size, err := g.size(ctx, filepath.Join(g.Data, fmt.Sprintf("size-%d", i+1)), nodes, &r)
		if err != nil {
			return r, fmt.Errorf("nodes: %d: %w", nodes, err)
		}
		r.Sizes = append(r.Sizes, size)
	}
	return r, nil
}

// size measures one size in a fresh datacenter.
func (g *Growth) size(ctx context.Context, dir string, nodes int, r *GrowthReport) (size SizeReport, err error) {
	size.Nodes = nodes
	o := &own{cluster: &cluster{dir: dir, version: g.Version, log: g.Log, logs: g.Errors}}
	defer func() { err = errors.Join(err, o.cluster.close()) }()
	if err := o.cluster.begin(ctx); err != nil {
		return size, err
	}
	r.Redis = o.redisAbout(ctx)
	g.Note("nodes: %d, joining", nodes)
	begun := time.Now()
	if err := o.cluster.addRunners(nodeNames(nodes), g.Slots); err != nil {
		return size, err
	}
	size.JoinSeconds = time.Since(begun).Seconds()
	m, closed, err := newMeter(o)
	if err != nil {
		return size, err
	}
	defer func() { err = errors.Join(err, closed()) }()
	return size, g.measure(o.cluster.ctx, m, &size)
}

// measure measures a site whose nodes are ready: first without work, then with each workload.
func (g *Growth) measure(ctx context.Context, m *meter, size *SizeReport) (err error) {
	if size.Idle, err = g.idle(ctx, m, size.Nodes); err != nil {
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
	g.Note("nodes: %d, %d calls in a row: %.1f runs/s", size.Nodes, Steps, size.Together.RunsPerSecond)
	fan := peer.Order{
		Runs: max(g.Runs/fanOutShare, 1), InFlight: 1, Calls: g.Fan, AtOnce: true, Within: g.Within,
	}
	if size.FanOut, err = m.load(ctx, fan, size.Idle); err != nil {
		return err
	}
	g.Note("nodes: %d, %d calls at once: %.0f calls/s", size.Nodes, g.Fan, size.FanOut.CallsPerSecond)
	if g.Backlog > 0 {
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
	s := m.own.cluster
	if err := s.addRunners([]string{busyNode}, busySlots); err != nil {
		return nil, err
	}
	b := backlog{runs: g.Backlog, note: g.Note}
	if err := b.sign(&s.owner); err != nil {
		return nil, err
	}
	if _, _, err := b.fill(ctx, &s.coord); err != nil {
		return nil, fmt.Errorf("fill the backlog: %w", err)
	}
	if err := s.cordon(busyNode); err != nil { // a measured call would wait there for hours
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

// nodeNames returns the names of a number of nodes.
func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i+1)
	}
	return names
}
