package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"writ"
	"writ/cmd/writ/internal/bench/peer"
	"writ/cmd/writ/internal/config"
)

// Speed measures the throughput of runs, from a signed submission on the link to the event that the run has ended. All
// components in between are as in production. The calls do no work, so the whole time is writ's own.
type Speed struct {
	Runs      int // runs of ten calls each per round, several in flight
	InFlight  int
	Slots     int           // of the only node
	Fan       int           // number of calls in a run of independent calls
	Rounds    int           // number of measurements of each workload
	Within    time.Duration // time limit for submitting the runs of a measurement
	AsynqPoll time.Duration // mean poll interval of bare asynq
	Data      string        // data directory, which must be empty or missing
	Profiles  string        // directory for CPU profiles of supervisor and runner, "" for none
	TLS       bool          // also measure writ with TLS
	Beside    []string      // programs with further systems to measure; see package peer
	Version   string
	Errors    io.Writer // log output of processes
	Log       *slog.Logger
	Note      func(format string, args ...any)
}

// SpeedReport holds the results of Speed.
type SpeedReport struct {
	Machine     Machine        `json:"machine"`
	Redis       string         `json:"redis"`
	Runs        int            `json:"runs"`
	InFlight    int            `json:"in_flight"`
	Slots       int            `json:"slots"`
	Rounds      int            `json:"rounds"`
	AsynqPollMS float64        `json:"asynq_poll_ms"`
	Systems     []SystemReport `json:"systems"`
	Missing     []string       `json:"missing"` // reasons for systems that were not measured
}

// SystemReport holds the results for one system.
type SystemReport struct {
	Name       string  `json:"name"`
	Durability string  `json:"durability"` // text: the part of the state that survives a power failure
	Together   Figures `json:"together"`   // runs of ten sequential calls, many in flight
	Alone      Figures `json:"alone"`      // the same runs, one at a time
	OneCall    Figures `json:"one_call"`   // runs of one call, one at a time
	FanOut     Figures `json:"fan_out"`    // runs of many independent calls, one at a time
}

// Figures holds the results for one workload. Rates and CPU times are medians of the rounds. Time covers the runs of
// all rounds.
type Figures struct {
	Runs           int                `json:"runs"` // in all rounds
	InFlight       int                `json:"in_flight"`
	Calls          int                `json:"calls"` // per run
	RunsPerSecond  float64            `json:"runs_per_second"`
	CallsPerSecond float64            `json:"calls_per_second"`
	CPUPerCall     float64            `json:"cpu_us_per_call"` // of all processes, in microseconds
	CPUOf          map[string]float64 `json:"cpu_us_per_call_of"`
	Time           Spread             `json:"time"` // from submission to result
	// Number of calls that writ runs in the time of one call of this system.
	WritToThis float64 `json:"writ_to_this,omitzero"`
}

// Steps is the number of calls of a run with sequential calls.
const Steps = 10

// Divisors of Runs for the slower workloads of a round.
const (
	aloneShare   = 20
	oneCallShare = 5
	fanOutShare  = 200
	warmUpShare  = 5
)

// workload is an order that is measured on every system.
type workload struct {
	name  string
	order peer.Order
	of    func(*SystemReport) *Figures
}

func (s *Speed) workloads() []workload {
	part := func(share int) int { return max(s.Runs/share, 1) }
	return []workload{
		{"together", s.order(s.Runs, s.InFlight, Steps), func(r *SystemReport) *Figures { return &r.Together }},
		{"alone", s.order(part(aloneShare), 1, Steps), func(r *SystemReport) *Figures { return &r.Alone }},
		{"one call", s.order(part(oneCallShare), 1, 1), func(r *SystemReport) *Figures { return &r.OneCall }},
		{"fan-out", peer.Order{Runs: part(fanOutShare), InFlight: 1, Calls: s.Fan, AtOnce: true, Within: s.Within}, func(r *SystemReport) *Figures { return &r.FanOut }},
	}
}

// order returns an order of sequential calls.
func (s *Speed) order(runs, inFlight, calls int) peer.Order {
	return peer.Order{Runs: runs, InFlight: inFlight, Calls: calls, Within: s.Within}
}

// system is one of the compared systems: writ, or another program.
type system interface {
	// about returns its name, and the part of its state that survives a power failure.
	about() (name, durability string)
	// prepare does the work that is not measured.
	prepare(o peer.Order) error
	// carryOut runs the prepared order.
	carryOut(o peer.Order) (peer.Took, error)
	// cpu returns the CPU time that each part of the system has used so far.
	cpu() (map[string]time.Duration, error)
}

// makeProfiles makes the directory of profiles, unless its path is "".
func makeProfiles(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return writ.Errorf(writ.CodeUsage, "make the directory of profiles: %w", err).
			WithHint("name another directory with --profile")
	}
	return nil
}

// Run runs the benchmark. After an error, it also returns the results so far.
func (s *Speed) Run(ctx context.Context) (r SpeedReport, err error) {
	if err := errors.Join(emptyDir(s.Data), makeProfiles(s.Profiles)); err != nil {
		return r, err
	}
	r = SpeedReport{Runs: s.Runs, InFlight: s.InFlight, Slots: s.Slots, Rounds: s.Rounds, AsynqPollMS: float64(s.AsynqPoll) / float64(time.Millisecond)}
	if r.Machine, err = thisMachine(s.Data); err != nil {
		return r, err
	}
	own, err := s.begin(ctx, &r)
	defer func() { err = errors.Join(err, own.close()) }()
	if err != nil {
		return r, err
	}
	others, err := s.besideAll(own.clusters[0], &r)
	if err != nil {
		return r, err
	}
	if s.TLS {
		secure, err := s.beginSecure(ctx)
		defer func() { err = errors.Join(err, secure.close()) }()
		if err != nil {
			return r, err
		}
		others = append([]system{secure}, others...)
	}
	return r, s.measure(append([]system{own}, others...), &r)
}

// emptyDir creates a directory. It returns an error if the directory is not empty.
func emptyDir(dir string) error {
	if err := config.MakeData(dir); err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return errors.Join(err, writ.Errorf(writ.CodeUsage, "%s is not empty", dir).WithHint("a benchmark needs an empty directory"))
	}
	return nil
}

// sample holds the measurements of a workload and a system in one round.
type sample struct {
	took peer.Took
	cpu  map[string]time.Duration
}

// measure runs every workload on every system, round by round. Systems alternate within a round, so that other load on
// the machine affects all of them.
func (s *Speed) measure(systems []system, r *SpeedReport) error {
	for _, one := range systems {
		name, durability := one.about()
		r.Systems = append(r.Systems, SystemReport{Name: name, Durability: durability})
		s.Note("%s warms up", name)
		if _, err := take(one, s.order(max(s.Runs/warmUpShare, 1), s.InFlight, Steps)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, w := range s.workloads() {
		samples := make([][]sample, len(systems))
		for round := range s.Rounds {
			for turn := range systems {
				i := turn
				if round%2 == 1 {
					i = len(systems) - 1 - turn // reverse the order in every second round
				}
				got, err := take(systems[i], w.order)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", r.Systems[i].Name, w.name, err)
				}
				samples[i] = append(samples[i], got)
				s.Note("%s, %s, round %d: %.0f calls/s", r.Systems[i].Name, w.name, round+1, got.callsPerSecond(w.order))
			}
		}
		for i := range systems {
			f := figuresOf(w.order, samples[i])
			f.WritToThis = ratio(w.order, samples[0], samples[i])
			*w.of(&r.Systems[i]) = f
		}
	}
	return nil
}

// take runs an order on a system and measures its CPU time.
func take(one system, o peer.Order) (sample, error) {
	if err := one.prepare(o); err != nil {
		return sample{}, err
	}
	before, err := one.cpu()
	if err != nil {
		return sample{}, err
	}
	took, err := one.carryOut(o)
	if err != nil {
		return sample{}, err
	}
	used, err := one.cpu()
	for part := range used {
		used[part] -= before[part]
	}
	return sample{took, used}, err
}

// calls returns the number of completed calls.
func (s sample) calls(o peer.Order) float64 { return float64(len(s.took.Runs) * o.Calls) }

func (s sample) callsPerSecond(o peer.Order) float64 { return s.calls(o) / s.took.All.Seconds() }

// ratio returns the rate of the first system divided by that of the second: the median of the ratios per round, because
// a round compares measurements close in time.
func ratio(o peer.Order, first, second []sample) float64 {
	var all []float64
	for round := range min(len(first), len(second)) {
		all = append(all, first[round].callsPerSecond(o)/second[round].callsPerSecond(o))
	}
	return median(all)
}

// figuresOf combines the rounds of a workload.
func figuresOf(o peer.Order, samples []sample) Figures {
	f := Figures{InFlight: o.InFlight, Calls: o.Calls, CPUOf: make(map[string]float64)}
	var rates, cpu []float64
	var times []time.Duration
	parts := make(map[string][]float64)
	for _, s := range samples {
		rates = append(rates, s.callsPerSecond(o))
		times = append(times, s.took.Runs...)
		f.Runs += len(s.took.Runs)
		all := 0.0
		for part, used := range s.cpu {
			perCall := float64(used.Microseconds()) / s.calls(o)
			parts[part] = append(parts[part], perCall)
			all += perCall
		}
		cpu = append(cpu, all)
	}
	f.CallsPerSecond, f.CPUPerCall = median(rates), median(cpu)
	f.RunsPerSecond = f.CallsPerSecond / float64(o.Calls)
	f.Time = spreadOf(times)
	for part, used := range parts {
		f.CPUOf[part] = median(used)
	}
	return f
}
