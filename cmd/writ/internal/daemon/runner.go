package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/runner"
	"writ/runner/journal"
	"writ/runner/queue/redisqueue"
	"writ/supervisor/nodes"
)

// Runner is a node as a process.
type Runner struct {
	Data       string
	Name       string // what it wants to be called; needed only until it has joined
	Supervisor string // URL of the door of its datacenter
	Token      string // to join with, "" if it has joined or waits for an approve statement
	Cluster    writ.ClusterID
	Redis      redisqueue.Server // without a login in its URL the node has the account that its supervisor gives it
	Slots      int
	Capacity   writ.Capacity // parts that are 0 are measured
	Drivers    Drivers
	Host       HostConfig    // for DriversHost
	Speed      float64       // of simulated drivers
	Grace      time.Duration // see runner.Runner
	Version    string
	Log        *slog.Logger
}

// Run joins if it has not yet, and serves until ctx ends; then it returns nil. ready is told the drivers that the node serves, when it
// has joined.
func (r *Runner) Run(ctx context.Context, ready func([]writ.NodeDriver)) (err error) {
	if err := os.MkdirAll(r.Data, 0o700); err != nil {
		return unwritable(r.Data, fmt.Errorf("make the data directory: %w", err))
	}
	if u, err := url.Parse(r.Supervisor); err != nil || u.Host == "" {
		return writ.Errorf(writ.CodeUsage, "%q is no address of a supervisor's door", r.Supervisor).WithHint("it looks like http://127.0.0.1:7441")
	}
	door := &nodes.Client{URL: strings.TrimSuffix(r.Supervisor, "/")}
	queue, err := r.Redis.Open()
	if err != nil {
		return err
	}
	queue.Log = r.Log
	defer func() { err = errors.Join(err, queue.Close()) }()
	drivers, err := openDrivers(ctx, driverConfig{Choice: r.Drivers, Dir: hostDir(r.Data), Speed: r.Speed, Host: r.Host, Log: r.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drivers.close()) }()
	member, err := runner.Join(ctx, runner.Joining{
		Dir: r.Data, Door: door, Token: r.Token, Cluster: r.Cluster, Name: r.Name, Version: r.Version, Log: r.Log,
	})
	if err != nil {
		return err
	}
	if !r.Redis.HasLogin() {
		queue.Login = member.Login(door)
	}
	records, err := journal.Open(ctx, filepath.Join(r.Data, "journal.db"))
	if err != nil {
		return unwritable(r.Data, fmt.Errorf("open the node's journal: %w", err))
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	r.Log.InfoContext(ctx, "the node has joined", "name", member.Name(), "node", member.Node(), "dc", member.Datacenter())
	ready(describe(drivers.all))
	node := &runner.Runner{
		Member: member, Door: door, Queue: queue, Journal: records, Drivers: drivers.all, Slots: r.Slots, Capacity: r.Capacity,
		Grace: r.Grace, Version: r.Version, Log: r.Log,
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	group, serving := errgroup.WithContext(serving)
	for _, service := range drivers.services {
		group.Go(func() error { return service(serving) })
	}
	group.Go(func() error {
		defer stop() // of what serves the drivers
		return node.Run(serving)
	})
	return group.Wait()
}
