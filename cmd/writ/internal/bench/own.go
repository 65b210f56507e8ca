package bench

import (
	"context"
	"errors"
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

// own runs orders, the workloads of package peer, on one or several clusters of writ. Several clusters share a
// coordinator, and the runs of an order are distributed among them in turn.
type own struct {
	clusters []*cluster
	served   *served   // coordinator; nil if this process is the coordinator
	postgres *postgres // server with the stores of the clusters; nil for files
	signed   [][]byte
}

// close stops all processes and goroutines.
func (o *own) close() (err error) {
	for _, c := range o.clusters {
		err = errors.Join(err, c.close())
	}
	if o.served != nil {
		err = errors.Join(err, o.served.close())
	}
	if o.postgres != nil {
		err = errors.Join(err, o.postgres.drop())
	}
	return err
}

// begin starts the datacenter whose speed is compared with other systems.
func (s *Speed) begin(ctx context.Context, r *SpeedReport) (*own, error) {
	o, err := s.beginOwn(ctx, &cluster{dir: s.Data, profiles: s.Profiles})
	if err != nil {
		return o, err
	}
	r.Redis = o.redisAbout(ctx)
	s.Note("Redis: %s", r.Redis)
	return o, nil
}

// redisAbout describes the Redis of the datacenters.
func (o *own) redisAbout(ctx context.Context) string {
	if redis := o.clusters[0].redis; redis.PID == 0 {
		return redis.About
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
	o = &own{clusters: []*cluster{c}}
	if err = c.begin(ctx); err == nil {
		err = c.addRunners([]string{"n1"}, s.Slots)
	}
	return o, err
}

func (o *own) about() (name, durability string) {
	name = "writ"
	if o.clusters[0].tls {
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
			o.signed[i], err = o.clusters[i%len(o.clusters)].sign(client.Order{
				Script: script, Params: map[string]any{"calls": int64(order.Calls)}, Expires: identity.DefaultValidity, Deadline: time.Hour,
				MaxCalls: scripts.UsualCalls,
			})
			return err
		})
	}
	return group.Wait()
}

func (o *own) carryOut(order peer.Order) (peer.Took, error) {
	return peer.Drive(o.clusters[0].ctx, order, func(ctx context.Context, i int) error {
		return carryOut(ctx, o.clusters[0].front, o.signed[i])
	})
}

// Classes of processes. The evaluators are children of supervisors.
const (
	classClient      = "client" // this process; without a served coordinator it is also the coordinator
	classCoordinator = CoordinatorName
	classSupervisor  = SupervisorName
	classEvaluators  = "evaluators"
	classRunner      = RunnerName
	classRedis       = "redis"
	classPostgres    = "postgres" // a PostgreSQL server on this machine that has the stores
)

// Classes lists the classes of processes. Not every benchmark has all of them.
var Classes = []string{
	classSupervisor, classEvaluators, classRedis, classRunner, classCoordinator, classPostgres, classClient,
}

// processes returns the processes of each class. It omits evaluators and PostgreSQL, whose processes start and end
// during a measurement.
func (o *own) processes() map[string][]int {
	all := map[string][]int{classClient: {os.Getpid()}}
	add := func(class string, pid int) { all[class] = append(all[class], pid) }
	if o.served != nil {
		add(classCoordinator, o.served.process.cmd.Process.Pid)
	}
	for _, c := range o.clusters {
		add(classSupervisor, c.supervisor.cmd.Process.Pid)
		for _, r := range c.runners {
			add(classRunner, r.cmd.Process.Pid)
		}
		if c.redis.PID != 0 {
			add(classRedis, c.redis.PID)
		}
	}
	return all
}

// cpu returns the CPU time of every class of processes.
func (o *own) cpu() (map[string]time.Duration, error) {
	used := make(map[string]time.Duration)
	for _, c := range o.clusters {
		evaluators, err := c.supervisor.children()
		if err != nil {
			return nil, err
		}
		used[classEvaluators] += evaluators.CPU
	}
	if o.postgres != nil && o.postgres.pid != 0 {
		all, err := cpuOfTree(o.postgres.pid)
		if err != nil {
			return nil, err
		}
		used[classPostgres] = all
	}
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
