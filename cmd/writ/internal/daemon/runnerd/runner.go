// Package runnerd runs a node as a process: its membership, its queue, its journal and the drivers that this host
// supports. The rules of a node are in package runner.
package runnerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/nodetrust"
	"writ/cmd/writ/internal/monitoring"
	"writ/cmd/writ/internal/transport"
	"writ/internal/metrics"
	"writ/internal/tracing"
	"writ/runner"
	"writ/runner/hardware"
	"writ/runner/journal"
	"writ/runner/member"
	"writ/runner/queue/redisqueue"
	"writ/supervisor/nodes"
)

// nodeKept lists the files that a node creates only once.
var nodeKept = []daemon.KeptFile{
	{Name: "node.key", Role: "node", Evidence: []string{"member.json", "journal.db"}, Next: member.NewNodeHint},
	{Name: "age.key", Role: "node", Evidence: []string{"member.json", "journal.db"}, Next: member.NewNodeHint},
	{Name: "member.json", Role: "node", Evidence: []string{"journal.db"}, Next: member.NewNodeHint},
	{Name: "journal.db", Role: "node", Evidence: []string{"journal.db.lock"}, Next: member.NewNodeHint},
}

// Config holds the settings of a node.
type Config struct {
	Data       string
	Name       string   // requested name; needed only until it has joined
	Supervisor []string // URLs of the node APIs of its datacenter's supervisors; one serves, the others stand by
	Token      string   // token to join with; "" if the node has joined or waits for an approve statement
	Cluster    writ.ClusterID
	Redis      redisqueue.Server // without a login in its URL, the supervisor provides the account
	// Transfers is the listen address for other nodes that fetch copies of volumes. Port 0 means any port; "" means that
	// the node sends no copies.
	Transfers string
	Public    string       // "host:port" of Transfers for other nodes; "" means Transfers
	Peers     []string     // address ranges of other nodes to fetch from, in addition to the internet
	RateMiB   int64        // rate limit for all fetching nodes together, in MiB per second; 0 means unlimited
	Metrics   net.Listener // for metrics and health, without login, on loopback; nil for none
	Slots     int
	Capacity  writ.Capacity // zero parts are measured
	Drivers   Drivers
	Host      HostConfig    // for DriversHost
	Speed     float64       // of simulated drivers
	Grace     time.Duration // see runner.Runner
	Traces    tracing.Settings
	Version   string
	Log       *slog.Logger
	// Ready is called with the drivers of the node after it has joined; nil for no call.
	Ready func([]writ.NodeDriver)
}

// Runner is a node as a process.
type Runner struct {
	Config
	peers []netip.Prefix // parsed from Peers
}

// New returns a node with these settings. It opens nothing.
func New(c Config) (*Runner, error) {
	c.Supervisor = slices.Clone(c.Supervisor)
	for i, address := range c.Supervisor {
		u, err := transport.Address("supervisor's node API", address)
		if err != nil {
			return nil, err
		}
		c.Supervisor[i] = u.String()
	}
	peers, err := parseRanges("transfer-allow", c.Peers)
	return &Runner{c, peers}, err
}

// Run joins if necessary, and serves until ctx ends; then it returns nil.
func (r *Runner) Run(ctx context.Context) (err error) {
	if err := config.MakeData(r.Data); err != nil {
		return err
	}
	for _, file := range nodeKept {
		if err := file.Check(r.Data); err != nil {
			return err
		}
	}
	if err := member.CheckDrivers(r.Data, hostDir(r.Data)); err != nil {
		return err
	}
	log, kept, endLog, err := keepLog(ctx, r.Data, r.Log)
	if err != nil {
		return err
	}
	defer func() { endLog(err) }()
	key, err := member.Key(r.Data)
	if err != nil {
		return err
	}
	trust, err := nodetrust.New(key, r.Token, r.Cluster, log)
	if err != nil {
		return err
	}
	transfers, err := openTransfers(r.Transfers, r.Public, r.RateMiB)
	if err != nil {
		return err
	}
	if transfers != nil {
		defer transfers.Listener.Close()
	}
	monitored, err := daemon.MetricsListener(r.Metrics, nil, "a node has no certificate that a monitor could verify",
		"read the metrics with a monitoring agent on this host")
	if err != nil {
		return err
	}
	api := nodes.NewSeveral(trust.Client(), r.Supervisor...)
	if r.Redis.CA == "" {
		r.Redis.Verify = trust.Redis
	}
	r.Redis.Connections = redisqueue.NodeConnections
	queue, err := r.Redis.Open()
	if err != nil {
		return err
	}
	queue.Log = log
	defer func() { err = errors.Join(err, queue.Close()) }()
	drivers, err := openDrivers(ctx,
		driverConfig{Choice: r.Drivers, Dir: hostDir(r.Data), Speed: r.Speed, Host: r.Host, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drivers.close()) }()
	joined, err := member.Join(ctx, member.Joining{
		Dir: r.Data, API: api, Token: r.Token, Cluster: r.Cluster, Name: r.Name, Version: r.Version, Log: log,
		Serial: hardware.Here().Serial(),
	})
	if err != nil {
		return err
	}
	trust.Joined(joined)
	if err := joined.BindDrivers(hostDir(r.Data)); err != nil {
		return config.Unwritable(r.Data, err)
	}
	if !r.Redis.HasLogin() {
		queue.Login = joined.Login(api)
	}
	store := filepath.Join(r.Data, "journal.db")
	records, err := journal.Open(ctx, store)
	if err != nil {
		return config.Unwritable(r.Data, fmt.Errorf("open the node's journal: %w", err))
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	log.InfoContext(ctx, "the node has joined", "name", joined.Name(), "node", joined.Node(), "dc", joined.Datacenter())
	if r.Ready != nil {
		r.Ready(describe(drivers.all))
	}
	traces, endTraces, err := daemon.OpenTraces(ctx, r.Traces, "writ-runner", r.Version, log)
	if err != nil {
		return err
	}
	defer endTraces()
	node := &runner.Runner{
		Member: joined, API: api, Queue: queue, Journal: records, Drivers: drivers.all, Lacking: drivers.lacking,
		Slots: r.Slots, Capacity: r.Capacity,
		Grace: r.Grace, Transfers: transfers, Peers: r.peers, Version: r.Version, Host: hardware.Here().Host,
		Disks: disksBelow(r.Data), Log: log, NodeLog: kept,
	}
	if traces != nil {
		node.Record = traces.Record
	}
	disk := &monitoring.Disk{Data: r.Data, Store: store}
	page := &monitoring.Page{
		Role: "runner", Version: r.Version, Checks: readiness{node}.checks, Log: log,
		Of: []metrics.Part{node.Metrics, disk.Metrics},
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	group, serving := errgroup.WithContext(serving)
	for _, service := range drivers.services {
		group.Go(func() error { return service(serving) })
	}
	group.Go(func() error { return daemon.ServeMetrics(serving, monitored, page.Handler(), log) })
	group.Go(func() error {
		defer stop() // ends the drivers' services with the node
		return node.Run(serving)
	})
	return group.Wait()
}

// openTransfers listens for other nodes that fetch copies. It returns nil without an address. Other nodes get the
// public address, or else address.
func openTransfers(address, public string, rateMiB int64) (*runner.Transfers, error) {
	if rateMiB < 0 || rateMiB > 1<<20 || rateMiB > 0 && address == "" {
		return nil, writ.Errorf(writ.CodeUsage,
			"--transfer-rate %d is invalid: it needs --transfers, and allows 0 to 1048576 MiB per second", rateMiB)
	}
	if address == "" {
		if public != "" {
			return nil, writ.Errorf(writ.CodeUsage,
				"--public-transfers needs --transfers")
		}
		return nil, nil
	}
	if !namesHost(address) && public == "" {
		return nil, writ.Errorf(writ.CodeUsage,
			"--transfers %s is not an address that other nodes can reach", address).
			WithHint("use an address that other nodes can reach, such as 10.0.0.5:7450, or add --public-transfers HOST:PORT")
	}
	if public != "" && !namesHost(public) {
		return nil, writ.Errorf(writ.CodeUsage, "--public-transfers %q is not the address of a host", public).
			WithHint("it looks like n1.example.net:7450")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot listen at --transfers %s: %w", address, err).
			WithHint("use an address of this host, and a free port")
	}
	host, _, _ := net.SplitHostPort(address)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return &runner.Transfers{
		Listener: listener, Address: cmp.Or(public, net.JoinHostPort(host, port)), Rate: rateMiB << 20,
	}, nil
}

// namesHost reports whether an address names one host, unlike an address such as 0.0.0.0.
func namesHost(address string) bool {
	host, port, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && host != "" && port != "" && (ip == nil || !ip.IsUnspecified())
}
