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
func (g *Growth) measure(ctx context.Context, m *meter, size *SizeReport) error {
	g.Note("nodes: %d, idle for %s", size.Nodes, g.Idle)
	if sleep.For(ctx, min(calmDown, g.Idle)) != nil {
		return context.Cause(ctx)
	}
	u, err := m.during(ctx, func() error { return sleep.For(ctx, g.Idle) })
	if err != nil {
		return err
	}
	size.Idle = idleFigures(u)
	g.Note("nodes: %d, idle: %.1f %% of a core", size.Nodes, size.Idle.Cores()*100)
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
	return nil
}

// nodeNames returns the names of a number of nodes.
func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i+1)
	}
	return names
}
