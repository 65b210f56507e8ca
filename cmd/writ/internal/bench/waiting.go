package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/identity"
	"writ/internal/sleep"
	"writ/scripts"
)

// Waiting measures the cost of many waiting runs: memory, idle CPU, the latency of another run, and the restart of a
// killed supervisor.
type Waiting struct {
	Runs    int           // number of waiting runs
	Idle    time.Duration // duration of the idle measurement
	Data    string        // data directory, which must be empty or missing
	Profile string        // file for a CPU profile of the first supervisor, "" for none
	Version string
	Errors  io.Writer // log output of the supervisor
	Log     *slog.Logger
	Note    func(format string, args ...any)
}

// WaitingReport holds the results of Waiting. Sizes are in bytes, times in seconds.
type WaitingReport struct {
	Machine Machine `json:"machine"`
	Redis   string  `json:"redis"`

	Runs            int     `json:"runs"`
	BehindSlots     int     `json:"behind_slots"`     // runs whose call waits for a slot or occupies one
	BehindResources int     `json:"behind_resources"` // runs whose call waits for a resource of another run
	BehindRevisions int     `json:"behind_revisions"` // runs that wait for earlier revisions of their deployment
	SubmitSeconds   float64 `json:"submit_seconds"`   // until all runs were accepted
	WaitingSeconds  float64 `json:"settle_seconds"`   // from then until all runs were evaluated and waited
	AcceptedPerSec  float64 `json:"accepted_per_second"`
	EvaluatedPerSec float64 `json:"evaluated_per_second"` // from the first submission until all runs waited
	CPUPerRun       float64 `json:"cpu_seconds_per_run"`  // of the supervisor, without its evaluators
	RSS             int64   `json:"rss"`                  // of the supervisor while all runs wait
	RSSPeak         int64   `json:"rss_peak"`             // its peak until then
	RSSCollected    int64   `json:"rss_collected"`        // after garbage collection
	Heap            int64   `json:"heap"`                 // reachable after garbage collection
	Goroutines      int     `json:"goroutines"`
	EvaluatorsRSS   int64   `json:"evaluators_rss"`
	JournalBytes    int64   `json:"journal_bytes"`
	IdleCPU         float64 `json:"idle_cpu"` // cores used by the supervisor while all runs wait
	OneMore         Spread  `json:"one_more"` // from the submission of another run to its end
	RestartReady    float64 `json:"restart_ready_seconds"`
	// From the start of the supervisor to the end of another run, which is submitted when the supervisor is ready.
	RestartFirst   float64 `json:"restart_first_result_seconds"`
	RestartRSS     int64   `json:"restart_rss"`
	RestartPeak    int64   `json:"restart_rss_peak"`
	RestartIdleCPU float64 `json:"restart_idle_cpu"`
}

// Peak returns the peak memory of a supervisor.
func (r *WaitingReport) Peak() int64 { return max(r.RSSPeak, r.RestartPeak) }

// moreScript is the script of the additional runs that oneMore and restart measure. They do not wait.
const moreScript = `
node := import("node")
run := import("run")
node.ping({}, {node: "free"})
run.output({done: true})
`

// The free node serves the runs of moreScript.
const freeNode, freeSlots = "free", 16

const (
	// oneMores is the number of runs of moreScript. They are measured one by one while all other runs wait.
	oneMores = 50
	// calmDown is the pause before the idle measurement, for the supervisor to finish the work that submissions cause.
	calmDown = 3 * time.Second
)

// Run runs the benchmark. After an error, it also returns the results so far.
func (w *Waiting) Run(ctx context.Context) (r WaitingReport, err error) {
	if err := emptyDir(w.Data); err != nil {
		return r, err
	}
	if err := makeProfile(w.Profile); err != nil {
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

// makeProfile creates the file for a CPU profile, unless its path is "".
func makeProfile(path string) error {
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return writ.Errorf(writ.CodeUsage, "create the file of the profile: %w", err).WithHint("name another file with --cpuprofile")
	}
	return nil
}

// fill submits the runs and waits until all of them wait.
func (w *Waiting) fill(s *cluster, r *WaitingReport) error {
	w.Note("signing %d submissions", w.Runs)
	b := backlog{runs: w.Runs, note: w.Note}
	if err := b.sign(s); err != nil {
		return err
	}
	r.Runs, r.BehindSlots, r.BehindResources, r.BehindRevisions = b.runs, b.behindSlots(), b.behindResources, b.behindRevisions
	before, err := s.supervisor.usage()
	if err != nil {
		return err
	}
	accepted, all, err := b.fill(s.ctx, s.front)
	if err != nil {
		return err
	}
	after, err := s.supervisor.usage()
	if err != nil {
		return err
	}
	r.SubmitSeconds, r.WaitingSeconds = accepted.Seconds(), (all - accepted).Seconds()
	r.AcceptedPerSec, r.EvaluatedPerSec = float64(w.Runs)/accepted.Seconds(), float64(b.evaluated())/all.Seconds()
	r.CPUPerRun = (after.CPU - before.CPU).Seconds() / float64(w.Runs)
	w.Note("all wait after %.1f s", all.Seconds())
	return nil
}

// weigh measures the supervisor while all runs wait.
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

// sizeOf returns the total size of the files in a directory.
func sizeOf(dir string) (total int64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
	}
	return total, err
}

// rest measures the supervisor's idle CPU.
func (w *Waiting) rest(s *cluster, r *WaitingReport) (err error) {
	w.Note("idle for %s", w.Idle)
	r.IdleCPU, err = w.idle(s)
	return err
}

// idle returns the number of cores that the supervisor uses while all runs wait.
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

// oneMore measures the latency of another run, several times.
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

// runOne submits a run that does not wait for others and returns its duration.
func (w *Waiting) runOne(s *cluster) (time.Duration, error) {
	order := client.Order{
		Script: client.NewScript("more.tengo", []byte(moreScript)), Expires: identity.DefaultValidity, Deadline: time.Hour, MaxCalls: scripts.UsualCalls,
	}
	signed, err := s.sign(order)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := carryOut(s.ctx, s.front, signed); err != nil {
		return 0, fmt.Errorf("one more run: %w", err)
	}
	return time.Since(begun), nil
}

// restart kills the supervisor and measures the start of the next one.
func (w *Waiting) restart(s *cluster, r *WaitingReport) error {
	w.Note("killing and restarting the supervisor")
	end := s.supervisor.kill
	if w.Profile != "" { // a kill would lose the profile
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
