package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"writ/cmd/writ/internal/bench/peer"
	"writ/internal/procstat"
	"writ/runner/queue/redisqueue"
)

// meter measures the resource use of the processes of a cluster.
type meter struct {
	own   *own
	redis []*redisqueue.Queue // of each datacenter
}

// newMeter returns a meter of a site. The caller closes it even after an error.
func newMeter(o *own) (*meter, error) {
	m := &meter{own: o}
	for _, c := range o.clusters {
		queue, err := redisqueue.Server{URL: c.redis.URL}.Open()
		if err != nil {
			return m, err
		}
		m.redis = append(m.redis, queue)
	}
	return m, nil
}

// close ends the connections to Redis.
func (m *meter) close() (err error) {
	for _, queue := range m.redis {
		err = errors.Join(err, queue.Close())
	}
	return err
}

// used holds the resource use of the processes of a cluster, in a period or since their start.
type used struct {
	wall     time.Duration            // duration of the period
	cpu      map[string]time.Duration // by class of process
	written  map[string]int64         // bytes written to disks, by class; evaluators cannot write
	commands map[string]int64         // of Redis, by name
}

// now returns the use of the processes since their start.
func (m *meter) now(ctx context.Context) (u used, err error) {
	if u.cpu, err = m.own.cpu(); err != nil {
		return u, err
	}
	u.written = make(map[string]int64)
	for class, pids := range m.own.processes() {
		for _, pid := range pids {
			n, err := procstat.Written(pid)
			if err != nil {
				return u, fmt.Errorf("read the writes of the %s: %w", class, err)
			}
			u.written[class] += n
		}
	}
	if p := m.own.postgres; p != nil && p.pid != 0 {
		u.written[classPostgres] = writtenByTree(p.pid)
	}
	u.commands = make(map[string]int64)
	for _, queue := range m.redis {
		counts, err := redisqueue.CommandCounts(ctx, queue)
		if err != nil {
			return u, err
		}
		for name, n := range counts {
			u.commands[name] += n
		}
	}
	return u, nil
}

// during calls do and returns the use of the processes in that time.
func (m *meter) during(ctx context.Context, do func() error) (u used, err error) {
	before, err := m.now(ctx)
	if err != nil {
		return u, err
	}
	begun := time.Now()
	if err := do(); err != nil {
		return u, err
	}
	if u, err = m.now(ctx); err != nil {
		return u, err
	}
	u.wall = time.Since(begun)
	subtract(u.cpu, before.cpu)
	subtract(u.written, before.written)
	subtract(u.commands, before.commands)
	return u, nil
}

// subtract subtracts the earlier value of each counter.
func subtract[N int64 | time.Duration](from, before map[string]N) {
	for name := range from {
		from[name] -= before[name]
	}
}

// sum returns the sum of all values.
func sum[N int64 | float64](of map[string]N) (all N) {
	for _, n := range of {
		all += n
	}
	return all
}

// CommandRate is the rate of a command of Redis.
type CommandRate struct {
	Command   string  `json:"command"` // in lower case, with its subcommand, such as "acl|setuser"
	PerSecond float64 `json:"per_second"`
}

// IdleFigures holds the cost of a site without work.
type IdleFigures struct {
	Seconds float64            `json:"seconds"`  // duration of the measurement
	CoresOf map[string]float64 `json:"cores_of"` // used cores, by class of process
	// NodeCores is the number of cores that the runners use, divided by the number of nodes.
	NodeCores float64       `json:"cores_per_node"`
	Commands  float64       `json:"redis_commands_per_second"`
	Most      []CommandRate `json:"most_redis_commands"` // the ten most frequent ones
}

// mostCommands is the number of commands that a report lists.
const mostCommands = 10

// idleFigures returns the figures of a period without work, for a site with a number of nodes.
func idleFigures(u used, nodes int) IdleFigures {
	seconds := u.wall.Seconds()
	f := IdleFigures{Seconds: seconds, CoresOf: make(map[string]float64), Commands: float64(sum(u.commands)) / seconds}
	for class, cpu := range u.cpu {
		f.CoresOf[class] = cpu.Seconds() / seconds
	}
	f.NodeCores = f.CoresOf[classRunner] / float64(nodes)
	names := slices.SortedFunc(maps.Keys(u.commands), func(a, b string) int {
		return cmp.Or(cmp.Compare(u.commands[b], u.commands[a]), cmp.Compare(a, b))
	})
	for _, name := range names[:min(len(names), mostCommands)] {
		if n := u.commands[name]; n > 0 {
			f.Most = append(f.Most, CommandRate{name, float64(n) / seconds})
		}
	}
	return f
}

// Cores returns the cores that all processes use.
func (f IdleFigures) Cores() float64 { return sum(f.CoresOf) }

// LoadFigures holds the cost of a call while a site works. CPU times are in microseconds.
type LoadFigures struct {
	Figures
	// BusyPerCall is the CPU time per call, minus the CPU time that the idle site uses in the same time. Measurement
	// errors can make it negative.
	BusyPerCall     float64            `json:"busy_us_per_call"`
	BusyOf          map[string]float64 `json:"busy_us_per_call_of"`
	CommandsPerCall float64            `json:"redis_commands_per_call"`
	WrittenPerCall  float64            `json:"written_bytes_per_call"` // to disks, by all processes
	WrittenOf       map[string]float64 `json:"written_bytes_per_call_of"`
}

// loadFigures returns the figures of order o from its durations, its resource use u and the idle cost of the site.
func loadFigures(o peer.Order, took peer.Took, u used, idle IdleFigures) LoadFigures {
	one := sample{took, u.cpu}
	calls := one.calls(o)
	f := LoadFigures{
		Figures: figuresOf(o, []sample{one}), BusyOf: make(map[string]float64), WrittenOf: make(map[string]float64),
		CommandsPerCall: float64(sum(u.commands)) / calls,
	}
	for class, perCall := range f.CPUOf {
		f.BusyOf[class] = perCall - idle.CoresOf[class]*float64(u.wall.Microseconds())/calls
	}
	f.BusyPerCall = sum(f.BusyOf)
	for class, n := range u.written {
		f.WrittenOf[class] = float64(n) / calls
	}
	f.WrittenPerCall = sum(f.WrittenOf)
	return f
}

// load prepares an order, which is not measured, and measures the site while it carries the order out.
func (m *meter) load(ctx context.Context, o peer.Order, idle IdleFigures) (f LoadFigures, err error) {
	if err := m.own.prepare(o); err != nil {
		return f, err
	}
	var took peer.Took
	u, err := m.during(ctx, func() (err error) {
		took, err = m.own.carryOut(o)
		return err
	})
	if err != nil {
		return f, err
	}
	return loadFigures(o, took, u, idle), nil
}
