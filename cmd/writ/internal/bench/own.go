package bench

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"writ/cmd/writ/internal/bench/peer"
	"writ/cmd/writ/internal/client"
	"writ/identity"
	"writ/scripts"
)

// Scripts of the speed benchmark.
const (
	stepsScript = `
node := import("node")
run := import("run")
params := {calls: {type: "int"}}
for i := 0; i < run.params.calls; i++ {
	node.ping().err // waits for it
}
`
	fanScript = `
node := import("node")
run := import("run")
params := {calls: {type: "int"}}
for i := 0; i < run.params.calls; i++ {
	node.ping()
}
`
)

// own runs the workloads of the benchmark, which package peer calls orders, on a cluster of writ.
type own struct {
	cluster *cluster
	runner  *child
	signed  [][]byte
}

// begin starts the datacenter whose speed is compared with other systems.
func (s *Speed) begin(ctx context.Context, r *SpeedReport) (*own, error) {
	c := &cluster{dir: s.Data, profiles: s.Profiles}
	if s.Profiles != "" {
		c.profile = filepath.Join(s.Profiles, SupervisorName+".pprof")
	}
	o, err := s.beginOwn(ctx, c)
	if err != nil {
		return o, err
	}
	r.Redis = c.redis.About
	if c.redis.PID != 0 {
		r.Redis = "redis-server " + redisVersion(ctx) + ", append-only file synced every second"
	}
	s.Note("Redis: %s", r.Redis)
	return o, nil
}

// beginSecure starts another datacenter, with TLS on the link and on the node's connections to Redis.
func (s *Speed) beginSecure(ctx context.Context) (*own, error) {
	return s.beginOwn(ctx, &cluster{dir: filepath.Join(s.Data, "tls"), tls: true})
}

// beginOwn starts a datacenter with one node.
func (s *Speed) beginOwn(ctx context.Context, c *cluster) (o *own, err error) {
	c.version, c.log, c.logs = s.Version, s.Log, s.Errors
	o = &own{cluster: c}
	if err = c.begin(ctx); err == nil {
		o.runner, err = c.addRunner(s.Slots)
	}
	return o, err
}

func (o *own) about() (name, durability string) {
	name = "writ"
	if o.cluster.tls {
		name = "writ, TLS"
	}
	return name, "every submission, call, start, result and end is on disk before it counts (fsync, shared by concurrent writes)"
}

// prepare signs the submissions of an order. Real clients sign on their own machines, so this is not measured.
func (o *own) prepare(order peer.Order) error {
	script := client.NewScript("steps.tengo", []byte(stepsScript))
	if order.AtOnce {
		script = client.NewScript("fan.tengo", []byte(fanScript))
	}
	o.signed = make([][]byte, order.Runs)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range o.signed {
		group.Go(func() (err error) {
			o.signed[i], err = o.cluster.owner.sign(client.Order{
				Script: script, Params: map[string]any{"calls": int64(order.Calls)}, Expires: identity.DefaultValidity, Deadline: time.Hour,
				MaxCalls: scripts.MaxCalls,
			})
			return err
		})
	}
	return group.Wait()
}

func (o *own) carryOut(order peer.Order) (peer.Took, error) {
	return peer.Drive(o.cluster.ctx, order, func(ctx context.Context, i int) error {
		return o.cluster.coord.carryOut(ctx, o.signed[i])
	})
}

// cpu returns the CPU time of every process involved. This process is the client, and also the coordinator.
func (o *own) cpu() (map[string]time.Duration, error) {
	supervisor, err := o.cluster.supervisor.usage()
	if err != nil {
		return nil, err
	}
	evaluators, err := o.cluster.supervisor.children()
	if err != nil {
		return nil, err
	}
	used := map[string]time.Duration{"supervisor": supervisor.CPU, "evaluators": evaluators.CPU + supervisor.Reaped}
	pids := map[string]int{"client": os.Getpid(), "runner": o.runner.cmd.Process.Pid}
	if o.cluster.redis.PID != 0 {
		pids["redis"] = o.cluster.redis.PID
	}
	for part, pid := range pids {
		u, err := usageOf(pid)
		if err != nil {
			return nil, err
		}
		used[part] = u.CPU
	}
	return used, nil
}
