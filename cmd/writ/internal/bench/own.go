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
	r.Redis = o.redisAbout(ctx)
	s.Note("Redis: %s", r.Redis)
	return o, nil
}

// redisAbout describes the Redis of the datacenter.
func (o *own) redisAbout(ctx context.Context) string {
	if o.cluster.redis.PID == 0 {
		return o.cluster.redis.About
	}
	return "redis-server " + redisVersion(ctx) + ", append-only file synced every second"
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
		err = c.addRunners([]string{"n1"}, s.Slots)
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

// Classes of processes. The evaluators are children of the supervisor.
const (
	classClient     = "client" // this process, which is also the coordinator
	classSupervisor = SupervisorName
	classEvaluators = "evaluators"
	classRunner     = RunnerName
	classRedis      = "redis"
)

// Classes lists the classes of processes.
var Classes = []string{classSupervisor, classEvaluators, classRedis, classRunner, classClient}

// processes returns the processes of each class, without the evaluators, which come and go.
func (o *own) processes() map[string][]int {
	all := map[string][]int{classClient: {os.Getpid()}, classSupervisor: {o.cluster.supervisor.cmd.Process.Pid}}
	for _, r := range o.cluster.runners {
		all[classRunner] = append(all[classRunner], r.cmd.Process.Pid)
	}
	if pid := o.cluster.redis.PID; pid != 0 {
		all[classRedis] = []int{pid}
	}
	return all
}

// cpu returns the CPU time of every class of processes.
func (o *own) cpu() (map[string]time.Duration, error) {
	evaluators, err := o.cluster.supervisor.children()
	if err != nil {
		return nil, err
	}
	used := map[string]time.Duration{classEvaluators: evaluators.CPU}
	for class, pids := range o.processes() {
		for _, pid := range pids {
			u, err := usageOf(pid)
			if err != nil {
				return nil, err
			}
			used[class] += u.CPU
			if class == classSupervisor {
				used[classEvaluators] += u.Reaped
			}
		}
	}
	return used, nil
}
