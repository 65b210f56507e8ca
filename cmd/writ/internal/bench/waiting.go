package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"writ/cmd/writ/internal/client"
	"writ/identity"
	"writ/internal/sleep"
	"writ/scripts"
)

// Waiting measures what many runs cost that wait: in memory, while nothing happens, when one more comes, and when the supervisor is killed
// and begins again.
type Waiting struct {
	Runs    int           // that wait
	Idle    time.Duration // how long nothing but waiting is looked at
	Data    string        // directory for everything; it must be empty or not there
	Profile string        // file for a profile of the first supervisor's CPU, "" for none
	Version string
	Errors  io.Writer // what the supervisor's process logs
	Log     *slog.Logger
	Note    func(format string, args ...any)
}

// WaitingReport is what Waiting measured. Sizes are in bytes, times in seconds.
type WaitingReport struct {
	Machine Machine `json:"machine"`
	Redis   string  `json:"redis"`

	Runs            int     `json:"runs"`
	BehindSlots     int     `json:"behind_slots"`     // a call waits for room on its node, or is there
	BehindResources int     `json:"behind_resources"` // a call waits for what another run works on
	BehindRevisions int     `json:"behind_revisions"` // the run waits for the ones before it in its deployment
	SubmitSeconds   float64 `json:"submit_seconds"`   // until all were accepted
	WaitingSeconds  float64 `json:"settle_seconds"`   // from then until all were evaluated and waited
	AcceptedPerSec  float64 `json:"accepted_per_second"`
	EvaluatedPerSec float64 `json:"evaluated_per_second"` // from the first submission until all waited
	CPUPerRun       float64 `json:"cpu_seconds_per_run"`  // of the supervisor, without its evaluators
	RSS             int64   `json:"rss"`                  // of the supervisor when all wait
	RSSPeak         int64   `json:"rss_peak"`             // its most until then
	RSSCollected    int64   `json:"rss_collected"`        // after a collection of garbage
	Heap            int64   `json:"heap"`                 // reachable then
	Goroutines      int     `json:"goroutines"`
	EvaluatorsRSS   int64   `json:"evaluators_rss"`
	JournalBytes    int64   `json:"journal_bytes"`
	IdleCPU         float64 `json:"idle_cpu"` // cores that the supervisor uses while nothing but waiting goes on
	OneMore         Spread  `json:"one_more"` // from the submission of one more run to the end of it
	RestartReady    float64 `json:"restart_ready_seconds"`
	RestartFirst    float64 `json:"restart_first_result_seconds"` // of one more run, handed in when it was ready
	RestartRSS      int64   `json:"restart_rss"`
	RestartPeak     int64   `json:"restart_rss_peak"`
	RestartIdleCPU  float64 `json:"restart_idle_cpu"`
}

// Peak is the most memory that a supervisor had.
func (r *WaitingReport) Peak() int64 { return max(r.RSSPeak, r.RestartPeak) }

// The scripts of waiting runs. What the simulated driver makes under these names takes 9999 s.
const (
	slotsScript = `
herodb := import("herodb")
run := import("run")
params := {name: {type: "string"}}
db := herodb.create("slow-9999-" + run.params.name, {memory_mib: 16}, {node: "busy", timeout: "24h"})
run.output({address: db.address})
`
	moreScript = `
node := import("node")
run := import("run")
node.ping({}, {node: "free"})
run.output({done: true})
`
)

// The nodes: whatever waits, waits for one, and the other has nothing to do.
const (
	busyNode, busySlots = "busy", 64
	freeNode, freeSlots = "free", 16
)

const (
	// submitters hand in at the same time, each one after the other; a link takes 128 requests at a time.
	submitters = 64
	// ofEach is how many runs a submitter has at least, so that there are some of each kind.
	ofEach = 40
	// oneMores is how many runs are measured one after the other while all others wait.
	oneMores = 50
	// calmDown is how long after the last submission nothing is measured, so that what it caused is over.
	calmDown = 3 * time.Second
)

// Run measures. It returns what it has measured with the error, if any.
func (w *Waiting) Run(ctx context.Context) (r WaitingReport, err error) {
	if err := emptyDir(w.Data); err != nil {
		return r, err
	}
	if r.Machine, err = thisMachine(w.Data); err != nil {
		return r, err
	}
	s := &cluster{dir: w.Data, profile: w.Profile, version: w.Version, log: w.Log, logs: w.Errors}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.begin(ctx); err != nil {
		return r, err
	}
	r.Redis = s.redis.About
	w.Note("Redis: %s", r.Redis)
	for _, n := range []struct {
		name  string
		slots int
	}{{busyNode, busySlots}, {freeNode, freeSlots}} {
		if err := s.addNode(n.name, n.slots); err != nil {
			return r, err
		}
	}
	for _, step := range []func(*cluster, *WaitingReport) error{w.fill, w.weigh, w.rest, w.oneMore, w.restart} {
		if err := step(s, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// fill hands in the runs and waits until all of them wait.
func (w *Waiting) fill(s *cluster, r *WaitingReport) error {
	r.Runs = w.Runs
	w.Note("signing %d submissions", w.Runs)
	lists, err := w.sign(s, r)
	if err != nil {
		return err
	}
	before, err := s.supervisor.usage()
	if err != nil {
		return err
	}
	begun := time.Now()
	var handedIn atomic.Int64
	group, ctx := errgroup.WithContext(s.ctx)
	for _, list := range lists {
		group.Go(func() error {
			for _, signed := range list {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if _, err := s.submit(signed); err != nil {
					return fmt.Errorf("submit: %w", err)
				}
				if n := int(handedIn.Add(1)); n%max(w.Runs/10, 1) == 0 {
					w.Note("%d accepted after %s", n, time.Since(begun).Round(100*time.Millisecond))
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.SubmitSeconds = time.Since(begun).Seconds()
	evaluated := w.Runs - r.BehindRevisions
	if err := s.events.await(s.ctx, func(e *events) bool { return e.begun >= evaluated }); err != nil {
		return err
	}
	all := time.Since(begun).Seconds()
	after, err := s.supervisor.usage()
	if err != nil {
		return err
	}
	r.WaitingSeconds = all - r.SubmitSeconds
	r.AcceptedPerSec, r.EvaluatedPerSec = float64(w.Runs)/r.SubmitSeconds, float64(evaluated)/all
	r.CPUPerRun = (after.CPU - before.CPU).Seconds() / float64(w.Runs)
	w.Note("all wait after %.1f s", all)
	return nil
}

// sign makes the submissions, a list for each submitter, and counts in r what they wait for: seven of ten for room on a node, two for what
// an earlier run makes, one for the run before it in its deployment. Only the submissions of one submitter have an order, so what they
// share is their own.
func (w *Waiting) sign(s *cluster, r *WaitingReport) ([][][]byte, error) {
	script := client.NewScript("waiting.tengo", []byte(slotsScript))
	lists := make([][][]byte, min(submitters, max(w.Runs/ofEach, 1)))
	var orders errgroup.Group
	orders.SetLimit(runtime.GOMAXPROCS(0))
	for i := range lists {
		n := w.Runs / len(lists)
		if i < w.Runs%len(lists) {
			n++
		}
		lists[i] = make([][]byte, n)
		revision := 0
		for j := range lists[i] {
			o := client.Order{Script: script, Expires: identity.MaxValidity, Deadline: identity.MaxDeadline, MaxCalls: 10}
			name := fmt.Sprintf("%d-%d", i, j)
			switch {
			case j%10 == 7 || j%10 == 8:
				name = fmt.Sprintf("shared-%d", i)
				if j > 7 {
					r.BehindResources++
				}
			case j%10 == 9:
				o.Deployment = identity.Deployment{Name: fmt.Sprintf("bench-%d", i), Base: revision}
				if revision > 0 {
					r.BehindRevisions++
				}
				revision++
			}
			o.Params = map[string]any{"name": name}
			orders.Go(func() (err error) {
				lists[i][j], err = s.sign(o)
				return err
			})
		}
	}
	r.BehindSlots = w.Runs - r.BehindResources - r.BehindRevisions
	return lists, orders.Wait()
}

// weigh takes the measures of the supervisor while all wait.
func (w *Waiting) weigh(s *cluster, r *WaitingReport) error {
	u, err := s.supervisor.usage()
	if err != nil {
		return err
	}
	r.RSS, r.RSSPeak = u.RSS, u.Peak
	m, err := s.supervisor.memory()
	if err != nil {
		return err
	}
	r.Heap, r.Goroutines = m.Heap, m.Goroutines
	if u, err = s.supervisor.usage(); err != nil {
		return err
	}
	r.RSSCollected = u.RSS
	evaluators, err := s.supervisor.children()
	if err != nil {
		return err
	}
	r.EvaluatorsRSS = evaluators.RSS
	r.JournalBytes, err = sizeOf(filepath.Join(s.dir, supervisorDir))
	return err
}

// sizeOf is how much the files of a directory hold.
func sizeOf(dir string) (total int64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
	}
	return total, err
}

// rest looks at the supervisor while nothing happens.
func (w *Waiting) rest(s *cluster, r *WaitingReport) (err error) {
	w.Note("nothing happens for %s", w.Idle)
	r.IdleCPU, err = w.idle(s)
	return err
}

// idle returns how much of a core the supervisor uses while nothing happens.
func (w *Waiting) idle(s *cluster) (float64, error) {
	if sleep.For(s.ctx, min(calmDown, w.Idle)) != nil {
		return 0, context.Cause(s.ctx)
	}
	before, err := s.supervisor.usage()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if sleep.For(s.ctx, w.Idle) != nil {
		return 0, context.Cause(s.ctx)
	}
	after, err := s.supervisor.usage()
	return (after.CPU - before.CPU).Seconds() / time.Since(begun).Seconds(), err
}

// oneMore measures how long one more run takes, several times.
func (w *Waiting) oneMore(s *cluster, r *WaitingReport) error {
	w.Note("one more run, %d times", oneMores)
	var times []time.Duration
	for range oneMores {
		took, err := w.runOne(s)
		if err != nil {
			return err
		}
		times = append(times, took)
	}
	r.OneMore = spreadOf(times)
	return nil
}

// runOne hands in a run that waits for nobody and returns after what time it ended.
func (w *Waiting) runOne(s *cluster) (time.Duration, error) {
	order := client.Order{
		Script: client.NewScript("more.tengo", []byte(moreScript)), Expires: identity.DefaultValidity, Deadline: time.Hour, MaxCalls: scripts.MaxCalls,
	}
	signed, err := s.sign(order)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := s.carryOut(s.ctx, signed); err != nil {
		return 0, fmt.Errorf("one more run: %w", err)
	}
	return time.Since(begun), nil
}

// restart kills the supervisor and measures how the next one begins.
func (w *Waiting) restart(s *cluster, r *WaitingReport) error {
	w.Note("the supervisor is killed and begins again")
	end := s.supervisor.kill
	if w.Profile != "" { // which would be lost
		end = s.supervisor.end
	}
	if err := end(); err != nil {
		return err
	}
	s.profile = ""
	begun := time.Now()
	if err := s.startSupervisor(); err != nil {
		return err
	}
	r.RestartReady = time.Since(begun).Seconds()
	if _, err := w.runOne(s); err != nil {
		return err
	}
	r.RestartFirst = time.Since(begun).Seconds()
	var err error
	if r.RestartIdleCPU, err = w.idle(s); err != nil {
		return err
	}
	u, err := s.supervisor.usage()
	r.RestartRSS, r.RestartPeak = u.RSS, u.Peak
	return err
}
