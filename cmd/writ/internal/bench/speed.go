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

// Speed measures how fast runs are carried out, from a signed submission on the link to the event that says how the run ended, with every
// part in between as it always is. The calls do nothing, so that all of the time is writ's own.
type Speed struct {
	Runs      int // of ten calls each, in flight together, in each round
	InFlight  int
	Slots     int           // of the one node
	Fan       int           // calls of a run that makes all of them at once
	Rounds    int           // how often everything is measured
	Within    time.Duration // how long each measurement of a round hands in runs
	AsynqPoll time.Duration // mean pause between two looks of bare asynq
	Data      string        // directory for everything; it must be empty or not there
	Profiles  string        // directory for profiles of the CPU of supervisor and runner, "" for none
	TLS       bool          // measure writ with TLS too
	Beside    []string      // programs with systems to measure too; see package peer
	Version   string
	Errors    io.Writer // what processes log
	Log       *slog.Logger
	Note      func(format string, args ...any)
}

// SpeedReport is what Speed measured.
type SpeedReport struct {
	Machine     Machine        `json:"machine"`
	Redis       string         `json:"redis"`
	Runs        int            `json:"runs"`
	InFlight    int            `json:"in_flight"`
	Slots       int            `json:"slots"`
	Rounds      int            `json:"rounds"`
	AsynqPollMS float64        `json:"asynq_poll_ms"`
	Systems     []SystemReport `json:"systems"`
	Missing     []string       `json:"missing"` // why systems were not measured
}

// SystemReport is what was measured of one system.
type SystemReport struct {
	Name       string  `json:"name"`
	Durability string  `json:"durability"` // what a power failure does not take, in words
	Together   Figures `json:"together"`   // runs of ten calls, each after the one before it, many in flight
	Alone      Figures `json:"alone"`      // the same, one run at a time
	OneCall    Figures `json:"one_call"`   // runs of one call, one at a time
	FanOut     Figures `json:"fan_out"`    // runs of many calls that do not need each other, one at a time
}

// Figures is what was measured of one workload. Rates and CPU are the medians of the rounds, times are those of the runs of all rounds.
type Figures struct {
	Runs           int                `json:"runs"` // of all rounds
	InFlight       int                `json:"in_flight"`
	Calls          int                `json:"calls"` // of a run
	RunsPerSecond  float64            `json:"runs_per_second"`
	CallsPerSecond float64            `json:"calls_per_second"`
	CPUPerCall     float64            `json:"cpu_us_per_call"` // of all processes, in microseconds
	CPUOf          map[string]float64 `json:"cpu_us_per_call_of"`
	Time           Spread             `json:"time"`         // from submission to result
	WritToThis     float64            `json:"writ_to_this"` // how many calls writ carries out while this system carries out one
}

// Steps is how many calls a run has where each waits for the one before it.
const Steps = 10

// The parts of Runs that the slower workloads have in a round.
const (
	aloneShare   = 20
	oneCallShare = 5
	fanOutShare  = 200
	warmUpShare  = 5
)

// workload is one thing that is measured of every system.
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

// order is one of calls that follow each other.
func (s *Speed) order(runs, inFlight, calls int) peer.Order {
	return peer.Order{Runs: runs, InFlight: inFlight, Calls: calls, Within: s.Within}
}

// system is something that carries out orders.
type system interface {
	// about says how it is called and what of it outlives a power failure.
	about() (name, durability string)
	// prepare does what is not measured.
	prepare(o peer.Order) error
	// carryOut does what was prepared last.
	carryOut(o peer.Order) (peer.Took, error)
	// cpu returns what each of its parts has used so far.
	cpu() (map[string]time.Duration, error)
}

// Run measures. It returns what it has measured with the error, if any.
func (s *Speed) Run(ctx context.Context) (r SpeedReport, err error) {
	if err := emptyDir(s.Data); err != nil {
		return r, err
	}
	if s.Profiles != "" {
		if err := os.MkdirAll(s.Profiles, 0o700); err != nil {
			return r, fmt.Errorf("make the directory of profiles: %w", err)
		}
	}
	r = SpeedReport{Runs: s.Runs, InFlight: s.InFlight, Slots: s.Slots, Rounds: s.Rounds, AsynqPollMS: float64(s.AsynqPoll) / float64(time.Millisecond)}
	if r.Machine, err = thisMachine(s.Data); err != nil {
		return r, err
	}
	own, err := s.begin(ctx, &r)
	defer func() { err = errors.Join(err, own.cluster.close()) }()
	if err != nil {
		return r, err
	}
	others, err := s.besideAll(own.cluster, &r)
	if err != nil {
		return r, err
	}
	if s.TLS {
		secure, err := s.beginSecure(ctx)
		defer func() { err = errors.Join(err, secure.cluster.close()) }()
		if err != nil {
			return r, err
		}
		others = append([]system{secure}, others...)
	}
	return r, s.measure(append([]system{own}, others...), &r)
}

// emptyDir makes a directory, and refuses one that holds something.
func emptyDir(dir string) error {
	if err := config.MakeData(dir); err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return errors.Join(err, writ.Errorf(writ.CodeUsage, "%s is not empty", dir).WithHint("a benchmark begins with nothing"))
	}
	return nil
}

// sample is what one round found of one workload of one system.
type sample struct {
	took peer.Took
	cpu  map[string]time.Duration
}

// measure carries out every workload on every system, round by round. In each round systems take turns, so that all of them have their
// share of whatever else happens on the machine.
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
					i = len(systems) - 1 - turn // who was last is first now
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

// take has a system carry out an order and looks what it used for it.
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

// calls is how many calls were carried out.
func (s sample) calls(o peer.Order) float64 { return float64(len(s.took.Runs) * o.Calls) }

func (s sample) callsPerSecond(o peer.Order) float64 { return s.calls(o) / s.took.All.Seconds() }

// ratio is how many times the rate of the second system the first one has: the median of what the rounds say, as each compares what was
// measured next to each other.
func ratio(o peer.Order, first, second []sample) float64 {
	var all []float64
	for round := range min(len(first), len(second)) {
		all = append(all, first[round].callsPerSecond(o)/second[round].callsPerSecond(o))
	}
	return median(all)
}

// figuresOf puts the rounds of a workload together.
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
