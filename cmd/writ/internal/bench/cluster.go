// Package bench measures the performance of writ on the local machine. It runs datacenters of real components in a
// temporary directory. The measured components are separate processes. This process acts as client, and also as
// coordinator unless the coordinator is measured. It uses only the public interfaces of the components.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/daemon/redisd"
	"writ/cmd/writ/internal/daemon/runnerd"
	"writ/identity"
	"writ/runner/queue/redisqueue"
)

// Directories of a cluster.
const (
	supervisorDir = "supervisor"
	redisDir      = "redis"
)

// cluster is a datacenter with all components that it needs. Set the fields from dir to logs, call begin, and call
// close even if begin fails.
type cluster struct {
	dir      string
	profile  string // file for a CPU profile of the next supervisor; "" means a file in profiles
	profiles string // directory for CPU profiles of all processes, "" for none
	version  string
	tls      bool // whether the link and the node's connections to Redis use TLS, as between hosts
	log      *slog.Logger
	logs     io.Writer // log output of child processes

	journal    string // file with the address of the journal's database, "" for a journal in a file
	owner      *owner
	datacenter *identity.Datacenter
	front      front
	nodeAPI    string // address of the supervisor's node API
	redis      redisd.Started
	redisAt    string // address of Redis for nodes, "" if nodes use the address of the supervisor
	supervisor *child
	processes  []*child // runners, and systems to compare with
	runners    []*child // processes with nodes, which are also in processes

	ctx   context.Context // for goroutines of this process
	stop  context.CancelFunc
	works *errgroup.Group
}

// begin creates a cluster whose coordinator is this process, and starts all components except nodes.
func (s *cluster) begin(ctx context.Context) error {
	s.owner = &owner{}
	if err := s.owner.found(s.tls, []string{filepath.Join(s.dir, supervisorDir)}); err != nil {
		return err
	}
	s.datacenter = &s.owner.person.Roster.Datacenters[0]
	s.open(ctx)
	c := &coordinator{}
	s.front = c
	if err := c.listen(s.ctx, s.works, s.owner, s.datacenter); err != nil {
		return err
	}
	return s.start()
}

// open creates the context for goroutines of this process.
func (s *cluster) open(ctx context.Context) {
	s.ctx, s.stop = context.WithCancel(ctx)
	s.works, s.ctx = errgroup.WithContext(s.ctx)
}

// start starts all components except nodes and the coordinator.
func (s *cluster) start() (err error) {
	if s.redis, err = s.startRedis(filepath.Join(s.dir, redisDir)); err != nil {
		return err
	}
	if s.nodeAPI, err = freeAddress(); err != nil {
		return fmt.Errorf("find a port for the api: %w", err)
	}
	if s.tls {
		if s.redisAt, err = freeAddress(); err != nil {
			return fmt.Errorf("find a port for Redis: %w", err)
		}
	}
	return s.startSupervisor()
}

// startRedis starts a Redis and returns when it is ready.
func (s *cluster) startRedis(dir string) (redis redisd.Started, err error) {
	ready := make(chan struct{})
	one := redisd.New(redisd.Config{Dir: dir, Socket: s.tls, Log: s.log, Ready: func(started redisd.Started) {
		redis = started
		close(ready)
	}})
	err = s.work(ready, func() error { return one.Run(s.ctx) })
	return redis, err
}

// work runs a function in this process and returns when the channel `ready` is closed.
func (s *cluster) work(ready <-chan struct{}, work func() error) error {
	s.works.Go(work)
	select {
	case <-ready:
		return nil
	case <-s.ctx.Done():
		return s.works.Wait()
	}
}

// close stops all processes and goroutines.
func (s *cluster) close() error {
	var err error
	for _, p := range s.processes {
		err = errors.Join(err, p.end())
	}
	if s.supervisor != nil {
		err = errors.Join(err, s.supervisor.end())
	}
	if s.stop != nil {
		s.stop()
		err = errors.Join(err, s.works.Wait())
	}
	return err
}

// optional returns a flag with its value, or no arguments if the value is empty, because commands reject empty values.
func optional(flag, value string) []string {
	if value == "" {
		return nil
	}
	return []string{flag, value}
}

// startSupervisor starts the supervisor on its existing directory and returns when it is connected.
func (s *cluster) startSupervisor() (err error) {
	flags := []string{"--data", filepath.Join(s.dir, supervisorDir), "--coordinator", s.front.address(), "--listen", s.nodeAPI}
	flags = append(flags, optional("--redis-listen", s.redisAt)...)
	if s.journal != "" {
		flags = append(flags, "--journal", "@"+s.journal)
	}
	if flags = append(flags, optional("--profile", s.profile)...); s.profile == "" {
		flags = append(flags, s.profileOf(SupervisorName)...)
	}
	s.supervisor, err = startChild(s.ctx, s.logs, new(memory), redisAt(s.redis.URL), SupervisorName, flags...)
	if err != nil {
		return err
	}
	return s.front.awaitSupervisor(s.ctx, s.datacenter.ID)
}

// redisAt returns the environment of a child with the URL of its Redis.
func redisAt(url string) []string { return []string{"WRIT_REDIS=" + url} }

// sign returns the signed submission of an order for the datacenter.
func (s *cluster) sign(order client.Order) ([]byte, error) {
	return s.owner.sign(s.datacenter.ID, order)
}

// token returns a token that admits a number of nodes.
func (s *cluster) token(uses int) (string, error) {
	token, signed, err := s.owner.grant(s.datacenter.ID, uses)
	if err == nil {
		err = s.front.decide(s.ctx, signed)
	}
	if err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	return token, nil
}

// cordon closes a ready node to calls that do not ask for it.
func (s *cluster) cordon(name string) error {
	statement := client.AboutNode(s.front.news().node(name))
	statement.Decision = "cordon"
	signed, err := s.owner.person.SignStatement(statement)
	if err == nil {
		err = s.front.decide(s.ctx, signed)
	}
	if err != nil {
		return fmt.Errorf("cordon node %s: %w", name, err)
	}
	return nil
}

// Plenty is a node capacity that no benchmark exhausts.
var Plenty = writ.Capacity{CPUs: 1 << 20, MemoryMiB: 1 << 30, DiskGiB: 1 << 30}

// addNode joins a node and serves it in this process, with simulated drivers.
func (s *cluster) addNode(name string, slots int) error {
	token, err := s.token(1)
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	node, err := runnerd.New(runnerd.Config{
		Data: filepath.Join(s.dir, name), Name: name, Supervisor: []string{"http://" + s.nodeAPI}, Token: token,
		Redis: redisqueue.Server{URL: s.redis.URL}.WithoutLogin(), Slots: slots, Capacity: Plenty,
		Drivers: runnerd.DriversSimulated, Grace: time.Millisecond, Version: s.version, Log: slog.New(slog.DiscardHandler),
		Ready: func([]writ.NodeDriver) { close(ready) },
	})
	if err != nil {
		return err
	}
	if err := s.work(ready, func() error { return node.Run(s.ctx) }); err != nil {
		return fmt.Errorf("start node %s: %w", name, err)
	}
	return awaitNodes(s.ctx, s.front, []string{name})
}

// inEach is the number of nodes that one process serves. A separate process for each node would need 11 MiB more per
// node.
const inEach = 50

// addRunners joins nodes and serves them in child processes, with simulated drivers. It returns when all are ready.
func (s *cluster) addRunners(names []string, slots int) error {
	parts := slices.Collect(slices.Chunk(names, inEach))
	runners := make([]*child, len(parts))
	var starts errgroup.Group
	for i, part := range parts {
		starts.Go(func() (err error) {
			runners[i], err = s.startRunner(part, slots)
			return err
		})
	}
	err := starts.Wait()
	runners = slices.DeleteFunc(runners, func(r *child) bool { return r == nil })
	s.runners, s.processes = append(s.runners, runners...), append(s.processes, runners...)
	if err != nil {
		return err
	}
	return awaitNodes(s.ctx, s.front, names)
}

// profileOf returns the flags that make a process write a CPU profile, if any.
func (s *cluster) profileOf(name string) []string {
	if s.profiles == "" {
		return nil
	}
	return []string{"--profile", filepath.Join(s.profiles, name+".pprof")}
}

// startRunner starts a process that joins and serves nodes.
func (s *cluster) startRunner(names []string, slots int) (*child, error) {
	token, err := s.token(len(names))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.dir, names[0]+".token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return nil, fmt.Errorf("write the token: %w", err)
	}
	redis := redisqueue.Server{URL: s.redis.URL}.WithoutLogin().URL
	if s.tls {
		redis = "rediss://" + s.redisAt + "/0"
	}
	flags := []string{
		"--data", s.dir, "--name", strings.Join(names, ","), "--supervisor", "http://" + s.nodeAPI, "--join", "@" + file,
		"--slots", strconv.Itoa(slots),
	}
	return startChild(s.ctx, s.logs, new(memory), redisAt(redis), RunnerName, append(flags, s.profileOf(RunnerName)...)...)
}
