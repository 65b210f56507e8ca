// Package supervisord runs the supervisor of a datacenter as a process: its key, its journal and trusted rosters, the
// registration with the coordinators, the node API, the certificate of Redis, and the wait for the lease of the
// journal. The rules of a supervisor are in package supervisor.
package supervisord

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/monitoring"
	"writ/cmd/writ/internal/transport"
	"writ/identity"
	"writ/identity/chain"
	"writ/identity/pki"
	"writ/identity/sshsig"
	"writ/internal/metrics"
	"writ/runner/queue"
	"writ/runner/queue/redisqueue"
	"writ/supervisor"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// The files of a supervisor in its data directory. The trusted rosters are also there.
const (
	supervisorKeyFile    = "supervisor.key"
	supervisorPublicFile = "supervisor.pub"
	supervisorJournal    = "journal.db"
)

// withoutBackup is the next step for a lost file of a supervisor.
const withoutBackup = daemon.FromBackup + "Without a backup make a new datacenter: `writ dc add`, and an empty --data"

var (
	supervisorKeyKept = daemon.KeptFile{
		Name: supervisorKeyFile, Role: "supervisor", Next: withoutBackup,
		Evidence: []string{supervisorJournal, markFile, "rosters"},
	}
	journalKept = daemon.KeptFile{
		Name: supervisorJournal, Role: "supervisor", Next: withoutBackup,
		Evidence: []string{supervisorJournal + ".lock", markFile},
	}
)

// Config holds the settings of a supervisor.
type Config struct {
	Data         string
	Journal      string // postgres:// URL of its journal, or @FILE with one; "" means a file in Data
	Name         string // name of the datacenter; needed only until the roster has its key
	Coordinators []string
	// Token for the registration; nil if the roster has the key, or gets it without a token.
	Token        *identity.Token
	Cluster      writ.ClusterID // trusted cluster; a token names it, and it is stored after joining
	Redis        redisqueue.Server
	RedisListen  string         // address for Redis to listen for nodes; "" means the configuration of Redis
	RedisTLSDir  string         // directory of the certificate of Redis; "" means a directory in Data
	NoAccounts   bool           // Redis is the stand-in in this process, which has no accounts
	Listener     net.Listener   // for its nodes
	Metrics      net.Listener   // for metrics and health, without login, and without TLS on loopback; nil for none
	AllowedHosts []string       // host names for nodes, in addition to addresses and the name of this machine
	MaxOpenRuns  int            // of a project; quota.DefaultMaxRuns if 0
	MaxOpenCalls int            // of a project; quota.DefaultMaxCalls if 0
	KeepRuns     time.Duration  // time after their end; supervisor.DefaultKeepRuns if 0
	Weights      map[string]int // of projects by name: see supervisor.Config
	Held         bool           // see supervisor.Config; cleared after the first start
	Grace        time.Duration  // time for in-flight requests of nodes after shutdown begins; 5 s if 0
	Version      string
	Log          *slog.Logger
	// Ready is called when the roster has the datacenter and the node API is open; nil for no call.
	Ready func()
}

// Supervisor is a datacenter's supervisor as a process.
type Supervisor struct {
	Config
	now atomic.Pointer[supervisor.Supervisor] // the serving supervisor; nil while this process stands by
}

// New returns a supervisor with these settings. It opens nothing.
func New(c Config) (*Supervisor, error) {
	for _, address := range c.Coordinators {
		if _, err := transport.Address("coordinator", address); err != nil {
			return nil, err
		}
	}
	if c.Ready == nil {
		c.Ready = func() {}
	}
	return &Supervisor{Config: c}, nil
}

// Key returns the key of the supervisor in a data directory. It creates a missing key, and writes the public
// key beside it.
func Key(data string) (ed25519.PrivateKey, error) {
	if err := config.MakeData(data); err != nil {
		return nil, err
	}
	key, err := sshsig.LoadOrCreateKey(filepath.Join(data, supervisorKeyFile))
	if err != nil {
		return nil, err
	}
	public := ssh.MarshalAuthorizedKey(sshsig.SSHKey(daemon.PublicKey(key)))
	if err := config.WriteFile(filepath.Join(data, supervisorPublicFile), public); err != nil {
		return nil, fmt.Errorf("write the public key: %w", err)
	}
	return key, nil
}

// Run serves until ctx ends, and then returns nil.
func (s *Supervisor) Run(ctx context.Context) (err error) {
	defer s.Listener.Close()
	if err := supervisorKeyKept.Check(s.Data); err != nil {
		return err
	}
	where, err := daemon.ClaimStore(s.Data, journalKept, "journal", s.Journal)
	if err != nil {
		return err
	}
	defer where.Lock.Close()
	key, err := Key(s.Data)
	if err != nil {
		return err
	}
	rosters, err := s.trustedRosters(ctx, where)
	if err != nil {
		return err
	}
	datacenter, err := s.awaitDatacenter(ctx, rosters, key)
	if err != nil {
		return err
	}
	redis, err := s.Redis.Open()
	if err != nil {
		return err
	}
	redis.Log = s.Log
	defer func() { err = errors.Join(err, redis.Close()) }()
	evaluator, endChildren := daemon.NewEvaluator(s.Log, s.Weights)
	defer func() { err = errors.Join(err, endChildren()) }()
	if _, err := evaluator.Confinement(ctx); err != nil { // its log describes the layers
		return fmt.Errorf("make a directory to evaluate scripts: %w", err)
	}

	var accounts queue.Accounts
	if !s.NoAccounts {
		accounts = redis.Accounts(datacenter.ID)
	}
	log := s.Log.With("dc", datacenter.Name)
	issuer := &pki.Issuer{
		Key: key, Name: pki.Name{Cluster: rosters.Cluster, Role: pki.Supervisor, Datacenter: datacenter.ID},
		Hosts: s.AllowedHosts,
	}
	if s.secured() {
		s.Listener = tls.NewListener(s.Listener, pki.Server(issuer.Certificate, anyClient))
	}
	config := supervisor.Config{
		DialWith:   coordinators(rosters),
		Datacenter: datacenter.ID, Pin: rosters.Cluster, Key: key, Queue: redis, Accounts: accounts,
		Evaluator: evaluator, Coordinators: s.Coordinators, MaxOpenRuns: s.MaxOpenRuns,
		Marks: marks{s.Data}, MaxOpenCalls: s.MaxOpenCalls, KeepRuns: s.KeepRuns, Weights: s.Weights,
		Version: s.Version, Log: log,
	}
	// The texts for a missing certificate are empty, because a supervisor always has a certificate.
	monitored, err := daemon.MetricsListener(s.Metrics, pki.Server(issuer.Certificate, nil), "", "")
	if err != nil {
		return err
	}
	var secured *redisTLS
	if s.RedisListen != "" {
		if secured, err = newRedisTLS(redis, issuer, s.RedisListen,
			cmp.Or(s.RedisTLSDir, filepath.Join(s.Data, "redis-tls")), log); err != nil {
			return err
		}
	}
	config.Certificates = certificates{issuer, secured}
	api, connections := &exchangeable{}, &nodes.Connections{}
	api.set(nodes.Standby(journal.ErrHeld, log))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return daemon.ServeHTTP(ctx, s.Listener, nodes.Guarded(api, s.AllowedHosts, log), cmp.Or(s.Grace, 5*time.Second), log,
			connections.Note)
	})
	if !s.NoAccounts {
		group.Go(func() error { return examineRedis(ctx, redis, log) })
	}
	disk := &monitoring.Disk{Data: s.Data, Store: where.File}
	page := &monitoring.Page{
		Role: "supervisor", Version: s.Version, Names: s.AllowedHosts, Checks: s.checks, Log: log,
		Of: []metrics.Part{supervisor.Metrics(datacenter.Name, s.now.Load), disk.Metrics},
	}
	group.Go(func() error { return daemon.ServeMetrics(ctx, monitored, page.Handler(), log) })
	config.Adopted = func(signed []byte) error { _, err := rosters.Add(signed); return err }
	serve := func(ready func()) error {
		return s.serve(ctx, where, config, rosters, api, connections, secured, ready)
	}
	group.Go(func() error { return s.standBy(ctx, log, api, sync.OnceFunc(s.Ready), serve) })
	return group.Wait()
}

// serve serves the datacenter until ctx ends or another supervisor takes over.
func (s *Supervisor) serve(ctx context.Context, store daemon.Store, config supervisor.Config, rosters config.Rosters,
	api *exchangeable,
	connections *nodes.Connections, secured *redisTLS, ready func()) (err error) {
	log := config.Log
	signed, err := rosters.Links() // the journal adopts newer rosters, so a changed database cannot hide one
	if err != nil {
		return err
	}
	if config.Journal, err = journal.Open(ctx, store.Path); err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	defer func() { err = errors.Join(err, config.Journal.Close()) }()
	if err := store.Opened(); err != nil {
		return err
	}
	config.Held = s.Held
	super, err := supervisor.Open(ctx, config, signed)
	if err != nil {
		return err
	}
	s.Held = false // so that a later takeover does not undo a release
	if err := s.keepRosters(ctx, super, rosters); err != nil {
		return errors.Join(err, config.Journal.Release(context.WithoutCancel(ctx)))
	}
	log.InfoContext(ctx, "supervisor is listening for nodes", "node_api", s.nodeAPI(), "epoch", super.Epoch(),
		"roster", super.Roster().Version)
	s.now.Store(super)
	defer s.now.Store(nil)
	api.set(nodes.Handler(super, super, log))
	defer api.set(nodes.Standby(journal.ErrHeld, log))
	ready()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return super.Run(ctx) })
	group.Go(func() error { connections.Watch(ctx, super); return nil })
	if secured != nil {
		group.Go(func() error { return secured.run(ctx) }) // only the serving supervisor
	}
	return group.Wait()
}

// anyClient accepts every client of the node API: nodes join there, and each request is verified.
func anyClient([]*x509.Certificate) error { return nil }

// secured reports whether the node API has TLS: everywhere except on loopback.
func (s *Supervisor) secured() bool { return !daemon.OnLoopback(s.Listener.Addr()) }

// nodeAPI returns the URL of the node API at the address of the listener.
func (s *Supervisor) nodeAPI() string {
	if s.secured() {
		return "https://" + s.Listener.Addr().String()
	}
	return "http://" + s.Listener.Addr().String()
}

// keepRosters stores the journal's rosters in the data directory, where an attacker with write access to the database
// cannot remove them.
func (s *Supervisor) keepRosters(ctx context.Context, super *supervisor.Supervisor, rosters config.Rosters) error {
	latest, err := rosters.Latest()
	if err != nil {
		return err
	}
	after := 0
	if latest != nil {
		after = latest.Version
	}
	links, err := chain.CollectPages(after, func(after int) ([][]byte, error) { return super.Rosters(ctx, after) })
	if err == nil {
		_, err = rosters.Add(links...)
	}
	if err != nil {
		return fmt.Errorf("keep the rosters of the journal: %w", err)
	}
	return nil
}
