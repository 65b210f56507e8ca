// Package devcluster runs a whole cluster in one process for `writ dev` and `writ demo`. It uses the same parts as
// separate processes do, and keeps its state in one data directory.
package devcluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/coordinatord"
	"writ/cmd/writ/internal/daemon/processes"
	"writ/cmd/writ/internal/daemon/redisd"
	"writ/cmd/writ/internal/daemon/runnerd"
	"writ/cmd/writ/internal/daemon/supervisord"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/sleep"
	"writ/runner/member"
	"writ/runner/queue/redisqueue"
)

// The files of `writ dev` in its data directory.
const (
	devKeyFile    = "dev.key"
	devClientFile = "client.yaml"
	devImages     = "images" // directory of files that scripts may use as images
)

// The time for running jobs after shutdown begins, and then for in-flight requests of each supervisor and the
// coordinator. It is short because a person waits. Jobs that are cut off are repeated after the next start.
const (
	devGrace        = 2 * time.Second
	devRequestGrace = 500 * time.Millisecond
)

// DevName is the name of the person in a development cluster.
const DevName = "dev"

// devCapacity is the capacity of a development node with simulated drivers. It does not depend on the machine, so that
// each example fits even on a small laptop.
var devCapacity = writ.Capacity{CPUs: 32, MemoryMiB: 64 << 10, DiskGiB: 1000}

// Config holds the settings of a development cluster.
type Config struct {
	Data        string
	Listener    net.Listener // of the coordinator
	Datacenters int
	Nodes       int // of each datacenter
	Drivers     runnerd.Drivers
	Capacity    writ.Capacity      // of each node; zero parts are measured with DriversHost, and large otherwise
	Host        runnerd.HostConfig // for DriversHost, which allows only one node
	Speed       float64            // of simulated drivers
	Version     string
	Log         *slog.Logger
	// Note prints each started process for people.
	Note func(format string, args ...any)
	// Ready is called when everything serves.
	Ready func(Running)
}

// Cluster is a whole cluster in one process, built from the same parts as separate processes. Its state stays in its
// data directory.
type Cluster struct{ Config }

// New returns a cluster with these settings, not yet started.
func New(c Config) *Cluster { return &Cluster{c} }

// Running describes a running development cluster.
type Running struct {
	URL     string            // of the coordinator and its dashboard
	Client  string            // path of the client configuration
	Drivers []writ.NodeDriver // the same on every node
	Nodes   int               // admitted nodes at the start
	Removed []string          // data directories of removed nodes; delete one to join the node again
}

// regions are the regions of development datacenters, to demonstrate placement.
var regions = []string{"north", "south", "east", "west"}

// devNode is a node to start.
type devNode struct {
	datacenter *identity.Datacenter
	name       string
	api        string // URL of the node API of its supervisor
	redis      redisqueue.Server
}

// Run creates the cluster if necessary, runs it until ctx ends, and then returns nil.
func (d *Cluster) Run(ctx context.Context) (err error) {
	defer d.Listener.Close()
	lock, err := daemon.LockStore(d.Data, devKeyFile) // before client.yaml names this cluster
	if err != nil {
		return err
	}
	defer lock.Close()
	all, serving := processes.New(ctx)
	defer func() {
		if stopped := all.Stop(); err == nil {
			err = stopped
		}
	}()
	cluster, err := d.start(serving, all)
	switch {
	case serving.Err() != nil:
		return nil // the deferred Stop returns the failure, if any
	case err != nil:
		return err
	}
	d.Ready(cluster)
	<-serving.Done()
	return nil
}

func (d *Cluster) start(ctx context.Context, all *processes.Group) (Running, error) {
	data, err := filepath.Abs(d.Data)
	if err != nil {
		return Running{}, err
	}
	d.Data = data
	d.Host.Above = data
	images := filepath.Join(data, devImages)
	if err := os.MkdirAll(images, 0o700); err != nil {
		return Running{}, config.Unwritable(data, fmt.Errorf("make the directory of images: %w", err))
	}
	d.Host.ImageDirs = append(d.Host.ImageDirs, images)
	if d.Drivers != runnerd.DriversHost { // a host's drivers offer its real capacity
		d.Capacity = writ.Capacity{
			CPUs:      cmp.Or(d.Capacity.CPUs, devCapacity.CPUs),
			MemoryMiB: cmp.Or(d.Capacity.MemoryMiB, devCapacity.MemoryMiB),
			DiskGiB:   cmp.Or(d.Capacity.DiskGiB, devCapacity.DiskGiB),
		}
	}
	person, rosters, err := d.govern()
	if err != nil {
		return Running{}, err
	}
	signed, err := rosters.Links()
	if err != nil {
		return Running{}, err
	}
	url := "http://" + d.Listener.Addr().String()
	c, err := d.writeClient(url, person, rosters)
	if err != nil {
		return Running{}, err
	}
	if err := all.Start(ctx, "coordinator", processes.Build(func(ready func()) (*coordinatord.Coordinator, error) {
		return coordinatord.New(coordinatord.Config{
			Data: filepath.Join(d.Data, "coord"), Listener: d.Listener, Rosters: signed, Cluster: rosters.Cluster,
			Grace: devRequestGrace, Version: d.Version, Log: d.Log.With("process", "coord"), Ready: ready,
		})
	})); err != nil {
		return Running{}, err
	}
	d.Note("coordinator and dashboard at %s", url)
	for _, name := range d.notStarted(person.Roster) {
		d.Note("datacenter %s is from an earlier start with another --dcs and stays offline", name)
	}
	var nodes []devNode
	for i := range d.Datacenters {
		datacenter := person.Roster.Datacenters.Named(d.datacenterName(i))
		more, err := d.startDatacenter(ctx, all, url, datacenter)
		if err != nil {
			return Running{}, err
		}
		nodes = append(nodes, more...)
	}
	drivers, err := d.startNodes(ctx, all, c, person, nodes)
	if err != nil {
		return Running{}, err
	}
	removed, err := d.awaitNodes(ctx, c, nodes)
	return Running{
		URL: url, Client: filepath.Join(d.Data, devClientFile), Drivers: drivers,
		Nodes: len(nodes) - len(removed), Removed: removed,
	}, err
}

// datacenterName returns "local" for the only datacenter, otherwise dc1, dc2 and so on.
func (d *Cluster) datacenterName(i int) string {
	if d.Datacenters == 1 {
		return "local"
	}
	return fmt.Sprintf("dc%d", i+1)
}

// notStarted lists the datacenters of the roster that this start does not run, because an earlier start had another
// number of datacenters. They stay in all lists, with lost nodes.
func (d *Cluster) notStarted(roster *identity.Roster) (names []string) {
	started := make(map[string]bool)
	for i := range d.Datacenters {
		started[d.datacenterName(i)] = true
	}
	for _, datacenter := range roster.Datacenters {
		if !started[datacenter.Name] {
			names = append(names, datacenter.Name)
		}
	}
	return names
}

func (d *Cluster) datacenterDir(name string) string { return filepath.Join(d.Data, name) }

// addCoordinator adds the coordinator to a roster, so that reading needs a login as in a real cluster. The roster keeps
// the address of the first start. At a later start with another address, the coordinator uses its listener's address.
func (d *Cluster) addCoordinator(next *identity.Roster) error {
	key, err := coordinatord.Key(filepath.Join(d.Data, "coord"))
	if err != nil || len(next.Coordinators) > 0 {
		return err
	}
	return client.AddCoordinator(next, "local", daemon.PublicKey(key), []string{"http://" + d.Listener.Addr().String()})
}

// govern creates the key and the first roster if they are missing, and a new version if the roster lacks datacenters.
func (d *Cluster) govern() (*client.Person, config.Rosters, error) {
	path := filepath.Join(d.Data, devKeyFile)
	private, err := sshsig.LoadOrCreateKey(path)
	if err != nil {
		return nil, config.Rosters{}, err
	}
	key := &client.Key{Signer: sshsig.NewSigner(private), Spec: path}
	rosters := config.RostersIn(d.Data, identity.ClusterOf(key.PublicKey()))
	roster, err := rosters.Latest()
	if err != nil {
		return nil, rosters, err
	}
	if roster == nil {
		_, signed, err := client.Found(key, DevName, time.Now())
		if err != nil {
			return nil, rosters, err
		}
		if roster, err = rosters.Add(signed); err != nil {
			return nil, rosters, err
		}
		d.Note("new cluster %s in %s", rosters.Cluster, d.Data)
	}
	person := &client.Person{Key: key, Name: DevName, Roster: roster}
	signed, err := client.Successor(roster, person, time.Now(), func(next *identity.Roster) error {
		if err := d.addCoordinator(next); err != nil {
			return err
		}
		return d.addDatacenters(next)
	})
	if err != nil {
		return nil, rosters, err
	}
	if signed != nil {
		if person.Roster, err = rosters.Add(signed); err != nil {
			return nil, rosters, err
		}
	}
	return person, rosters, nil
}

func (d *Cluster) addDatacenters(next *identity.Roster) error {
	for i := range d.Datacenters {
		name := d.datacenterName(i)
		key, err := supervisord.Key(d.datacenterDir(name))
		if err != nil {
			return err
		}
		datacenter := writ.Datacenter{
			Name: name, Region: regions[i%len(regions)], Labels: map[string]string{"use": "dev"},
		}
		if err := client.AddDatacenter(next, datacenter, daemon.PublicKey(key)); err != nil {
			return err
		}
	}
	return nil
}

// writeClient writes the client configuration, and returns a client for this process.
func (d *Cluster) writeClient(url string, person *client.Person, rosters config.Rosters) (*client.Client, error) {
	one := config.Context{
		Name: DevName, Servers: []string{url}, Cluster: rosters.Cluster, Project: client.DefaultProject,
		Key: person.Spec,
	}
	file := &config.File{Path: filepath.Join(d.Data, devClientFile), Current: DevName, Contexts: []config.Context{one}}
	if err := file.Save(); err != nil {
		return nil, err
	}
	return client.New(one, d.Data, client.Keys{})
}

// startDatacenter starts Redis and the supervisor of a datacenter, and returns its nodes.
func (d *Cluster) startDatacenter(
	ctx context.Context, all *processes.Group, coordinator string, datacenter *identity.Datacenter,
) ([]devNode, error) {
	dir := d.datacenterDir(datacenter.Name)
	redis, stand, err := d.startRedis(ctx, all, datacenter.Name, filepath.Join(dir, "redis"))
	if err != nil {
		return nil, err
	}
	listener, err := daemon.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	super := supervisord.Config{
		Data: dir, Name: datacenter.Name, Coordinators: []string{coordinator}, Redis: redis, NoAccounts: stand,
		Listener: listener,
		Grace:    devRequestGrace, Version: d.Version, Log: d.Log.With("process", "supervisor"),
	}
	if err := copyRosters(d.Data, dir); err != nil {
		return nil, err
	}
	if err := all.Start(ctx, "supervisor of "+datacenter.Name,
		processes.Build(func(ready func()) (*supervisord.Supervisor, error) {
			super.Ready = ready
			return supervisord.New(super)
		})); err != nil {
		return nil, err
	}
	url := "http://" + listener.Addr().String()
	d.Note("supervisor of %s; its node API is at %s", datacenter.Name, url)
	var nodes []devNode
	for i := range d.Nodes {
		name := fmt.Sprintf("n%d", i+1)
		if d.Datacenters > 1 {
			name = datacenter.Name + "-" + name
		}
		nodes = append(nodes, devNode{datacenter: datacenter, name: name, api: url, redis: redis.WithoutLogin()})
	}
	return nodes, nil
}

// copyRosters copies the trusted rosters into the data directory of a supervisor.
func copyRosters(from, to string) error {
	have, err := config.FindRosters(from)
	if err != nil {
		return err
	}
	signed, err := have.Links()
	if err != nil {
		return err
	}
	_, err = config.RostersIn(to, have.Cluster).Add(signed...)
	return err
}

// startRedis starts the Redis of a datacenter. stand reports whether the stand-in for redis-server runs.
func (d *Cluster) startRedis(
	ctx context.Context, all *processes.Group, datacenter, dir string,
) (server redisqueue.Server, stand bool, err error) {
	about := ""
	err = all.Start(ctx, "Redis of "+datacenter, processes.Build(func(ready func()) (*redisd.Redis, error) {
		return redisd.New(redisd.Config{Dir: dir, Log: d.Log.With("process", "redis"), Ready: func(started redisd.Started) {
			server.URL, about, stand = started.URL, started.About, started.Stand
			ready()
		}}), nil
	}))
	if err == nil {
		d.Note("Redis of %s: %s", datacenter, about)
	}
	return server, stand, err
}

// startNodes starts the nodes. A new node joins with its own token. It returns the drivers, which are the same on every
// node.
func (d *Cluster) startNodes(
	ctx context.Context, all *processes.Group, c *client.Client, person *client.Person, nodes []devNode,
) ([]writ.NodeDriver, error) {
	var drivers []writ.NodeDriver
	for _, n := range nodes {
		dir := d.nodeDir(n)
		token, err := d.tokenFor(ctx, c, person, dir, n)
		if err != nil {
			return nil, err
		}
		config := runnerd.Config{
			Data: dir, Name: n.name, Supervisor: []string{n.api}, Token: token, Redis: n.redis, Capacity: d.Capacity,
			Drivers: d.Drivers, Transfers: "127.0.0.1:0", Peers: []string{"127.0.0.0/8"},
			Host: d.Host, Speed: d.Speed, Grace: devGrace, Version: d.Version, Log: d.Log.With("process", "runner"),
		}
		err = all.StartPeer(ctx, "node "+n.name, func(ctx context.Context, ready func()) error {
			joined := false
			config.Ready = func(have []writ.NodeDriver) {
				drivers, joined = have, true
				ready()
			}
			node, err := runnerd.New(config)
			if err == nil {
				err = node.Run(ctx)
			}
			if !joined || writ.CodeOf(err) != writ.CodeNodeRejected {
				return err
			}
			d.Note("node %s in %s has ended: %v", n.name, n.datacenter.Name, err)
			<-ctx.Done() // the other nodes keep running
			return nil
		})
		if err != nil {
			return nil, err
		}
		d.Note("node %s in %s", n.name, n.datacenter.Name)
	}
	return drivers, nil
}

func (d *Cluster) nodeDir(n devNode) string {
	return filepath.Join(d.datacenterDir(n.datacenter.Name), n.name)
}

// awaitNodes waits until every node is ready, so that the first script finds all of them. It returns the directories of
// removed nodes without waiting for them.
func (d *Cluster) awaitNodes(ctx context.Context, c *client.Client, nodes []devNode) (removed []string, err error) {
	for _, n := range nodes {
		key := member.PlaceOf(d.nodeDir(n)).Fingerprint // a removed node may have had the same name
		err := retry(ctx, func() error {
			all, err := c.Nodes.List(ctx, api.ListNodesParams{Datacenter: api.Given(n.datacenter.Name)})
			if err != nil {
				return err
			}
			i := slices.IndexFunc(all, func(have writ.Node) bool { return have.Key == key })
			if i < 0 {
				gone, err := c.Nodes.List(ctx, api.ListNodesParams{
					Datacenter: api.Given(n.datacenter.Name), Admission: api.Given(writ.AdmissionRemoved),
				})
				if err != nil {
					return err
				}
				if slices.ContainsFunc(gone, func(have writ.Node) bool { return have.Key == key }) {
					removed = append(removed, d.nodeDir(n))
					return nil
				}
			}
			if i < 0 || all[i].Liveness != writ.LivenessReady && all[i].Admission == writ.AdmissionApproved {
				return writ.Errorf(writ.CodeUnreachable, "node %s is not ready", n.name)
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// retry calls `do` until it succeeds, returns a final error, or ctx ends.
func retry(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || ctx.Err() != nil || !writ.AsError(err).Retryable() {
			return err
		}
		if sleep.For(ctx, 100*time.Millisecond) != nil {
			return context.Cause(ctx)
		}
	}
}

// tokenFor creates a token for a node, or returns "" if the node has joined. It waits until the datacenter is
// connected.
func (d *Cluster) tokenFor(
	ctx context.Context, c *client.Client, person *client.Person, dir string, n devNode,
) (string, error) {
	if _, err := member.Join(ctx, member.Joining{Dir: dir, Log: d.Log}); writ.CodeOf(err) != writ.CodeUsage {
		return "", err // the node has joined, or its files are damaged; USAGE means that a token is needed
	}
	var text string
	err := retry(ctx, func() error {
		token, _, err := c.Statements.CreateToken(ctx, person, n.datacenter.ID,
			client.NewToken{Role: identity.TokenRoleNode, Validity: identity.TokenValidity, Uses: 1})
		text = token.String()
		return err
	})
	return text, err
}
