package daemon

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/transport"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/pki"
	"writ/internal/limit"
	"writ/runner/queue"
	"writ/runner/queue/redisqueue"
	"writ/supervisor"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// The files of a supervisor in its data directory, besides the rosters that it believed in when it joined.
const (
	supervisorKeyFile    = "supervisor.key"
	supervisorPublicFile = "supervisor.pub"
	supervisorJournal    = "journal.db"
	// protectedFile says that the journal carries authentication codes. It is beside the key, where a database that belongs to somebody else
	// cannot take it away.
	protectedFile = "journal.protected"
)

// askCoordinatorEvery is the pause between two looks whether the roster names a supervisor that waits for it.
const askCoordinatorEvery = time.Second

// Supervisor is a datacenter's supervisor as a process.
type Supervisor struct {
	Data         string
	Journal      string // postgres:// URL of its journal, or @FILE with one; a file in Data if ""
	Name         string // of the datacenter; needed only until the roster names its key
	Coordinators []string
	Token        *identity.Token // to be taken into the roster by, nil if it is there or is added by its key
	Cluster      writ.ClusterID  // what to believe in; a token names it, and after joining it is remembered
	Redis        redisqueue.Server
	RedisListen  string         // address at which Redis is to listen for nodes; "" leaves that to its configuration
	RedisTLSDir  string         // for the certificate that Redis reads then; in Data if ""
	NoAccounts   bool           // Redis is a stand-in in this process
	Listener     net.Listener   // for its nodes
	AllowedHosts []string       // names by which nodes ask for it, besides addresses and the name of this machine
	MaxOpenRuns  int            // of a project; supervisor.DefaultMaxOpenRuns if 0
	MaxOpenCalls int            // of a project; supervisor.DefaultMaxOpenCalls if 0
	KeepRuns     time.Duration  // after their end; supervisor.DefaultKeepRuns if 0
	Weights      map[string]int // of projects by name: see supervisor.Config
	OlderRunners bool           // see supervisor.Config
	Held         bool           // likewise; it counts once
	Grace        time.Duration  // of requests of nodes, once it is told to end; 5 s if 0
	Version      string
	Log          *slog.Logger
}

// SupervisorKey returns the key of the supervisor in a data directory, and makes it if there is none. The public half is left beside it.
func SupervisorKey(data string) (ed25519.PrivateKey, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	key, err := identity.LoadOrCreateKey(filepath.Join(data, supervisorKeyFile))
	if err != nil {
		return nil, err
	}
	public := ssh.MarshalAuthorizedKey(identity.SSHKey(PublicKey(key)))
	if err := config.WriteFile(filepath.Join(data, supervisorPublicFile), public); err != nil {
		return nil, fmt.Errorf("write the public key: %w", err)
	}
	return key, nil
}

// SupervisorJoined reports whether the rosters that are kept in a data directory name the supervisor there: then it needs no token.
func SupervisorJoined(data string) bool {
	path := filepath.Join(data, supervisorKeyFile)
	if _, err := os.Stat(path); err != nil {
		return false
	}
	key, err := identity.LoadOrCreateKey(path)
	if err != nil {
		return false
	}
	rosters, err := config.FindRosters(data)
	if err != nil {
		return false
	}
	latest, err := rosters.Latest()
	return err == nil && latest != nil && latest.DatacenterOf(PublicKey(key)) != nil
}

// PublicKey returns the public half of a key.
func PublicKey(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// Run serves until ctx ends, and returns nil then. ready is called when the datacenter is in the roster and its node API is open.
func (s *Supervisor) Run(ctx context.Context, ready func()) (err error) {
	defer s.Listener.Close()
	for _, address := range s.Coordinators {
		if _, err := transport.Address("coordinator", address); err != nil {
			return err
		}
	}
	where, err := claimStore(s.Data, supervisorJournal, "journal", s.Journal)
	if err != nil {
		return err
	}
	defer where.lock.Close()
	key, err := SupervisorKey(s.Data)
	if err != nil {
		return err
	}
	rosters, err := s.trustedRosters()
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
	evaluator, endChildren := NewEvaluator(s.Log, s.Weights)
	defer func() { err = errors.Join(err, endChildren()) }()
	if _, err := evaluator.Confinement(ctx); err != nil { // its log says what it found
		return fmt.Errorf("make a directory to evaluate scripts: %w", err)
	}

	var accounts queue.Accounts
	if !s.NoAccounts {
		accounts = redis.Accounts(datacenter.ID)
	}
	log := s.Log.With("dc", datacenter.Name)
	issuer := &pki.Issuer{Key: key, Name: pki.Name{Cluster: rosters.Cluster, Role: pki.Supervisor, Datacenter: datacenter.ID}, Hosts: s.AllowedHosts}
	if s.secured() {
		s.Listener = tls.NewListener(s.Listener, pki.Server(issuer.Certificate, anyClient))
	}
	config := supervisor.Config{
		DialWith:   coordinators(rosters),
		Datacenter: datacenter.ID, Pin: rosters.Cluster, Key: key, Queue: redis, Accounts: accounts,
		Evaluator: evaluator, Coordinators: s.Coordinators, MaxOpenRuns: s.MaxOpenRuns,
		Marks: marks{s.Data}, MaxOpenCalls: s.MaxOpenCalls, KeepRuns: s.KeepRuns, Weights: s.Weights, OlderRunners: s.OlderRunners, Version: s.Version, Log: log,
	}
	var secured *redisTLS
	if s.RedisListen != "" {
		if secured, err = newRedisTLS(redis, issuer, s.RedisListen, cmp.Or(s.RedisTLSDir, filepath.Join(s.Data, "redis-tls")), log); err != nil {
			return err
		}
	}
	config.Certificates = certificates{issuer, secured}
	api, connections := &exchangeable{}, &nodes.Connections{}
	api.set(nodes.Standby(journal.ErrHeld, log))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return serveHTTP(ctx, s.Listener, nodes.Guarded(api, s.AllowedHosts, log), cmp.Or(s.Grace, 5*time.Second), log, connections.Note)
	})
	if !s.NoAccounts {
		group.Go(func() error { return examineRedis(ctx, redis, log) })
	}
	config.Adopted = func(signed []byte) error { _, err := rosters.Add(signed); return err }
	serve := func(ready func()) error {
		return s.serve(ctx, where.path, config, rosters, api, connections, secured, ready)
	}
	group.Go(func() error { return s.standBy(ctx, log, api, sync.OnceFunc(ready), serve) })
	return group.Wait()
}

// lookForLease is the pause between two looks of a standby whether the datacenter is still served.
const lookForLease = time.Second

// standBy serves the datacenter whenever no other supervisor does, until ctx ends. A journal that others may share is waited for: it is on
// PostgreSQL, which comes back by itself. serve calls ready once it does serve, and leaves another answer there when it has.
func (s *Supervisor) standBy(ctx context.Context, log *slog.Logger, api *exchangeable, ready func(), serve func(ready func()) error) error {
	last := ""
	for {
		served := false
		err := serve(func() { served = true; ready() })
		said := fmt.Sprint(err)
		news := served || said != last
		last = said
		switch {
		case errors.Is(err, journal.ErrFenced):
			log.WarnContext(ctx, "another supervisor has taken over; this one stands by")
			ready()
		case errors.Is(err, journal.ErrHeld):
			if news {
				log.InfoContext(ctx, "another supervisor serves the datacenter; this one stands by")
				api.set(nodes.Standby(err, log))
			}
			ready()
		case s.Journal != "" && err != nil && writ.AsError(err).Code == writ.CodeStoreUnavailable:
			if news {
				log.WarnContext(ctx, "the journal does not answer; looking again", "err", err)
				api.set(nodes.Standby(err, log))
			}
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookForLease):
		}
	}
}

// serve serves the datacenter until ctx ends or another supervisor takes over.
func (s *Supervisor) serve(ctx context.Context, store string, config supervisor.Config, rosters config.Rosters, api *exchangeable,
	connections *nodes.Connections, secured *redisTLS, ready func()) (err error) {
	log := config.Log
	signed, err := rosters.Signed() // newer ones than the journal has are adopted: a database takes none away
	if err != nil {
		return err
	}
	if config.Journal, err = journal.Open(ctx, store); err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	defer func() { err = errors.Join(err, config.Journal.Close()) }()
	if config.Protected, config.ProtectedValues, err = isProtected(s.Data); err != nil {
		return err
	}
	config.Held = s.Held
	super, err := supervisor.Open(ctx, config, signed)
	if err != nil {
		return err
	}
	s.Held = false // one that stands by later, and takes over again, finds what people have released
	if err := s.keep(ctx, super, rosters); err != nil {
		return errors.Join(err, config.Journal.Release(context.WithoutCancel(ctx)))
	}
	log.InfoContext(ctx, "supervisor is listening for nodes", "node_api", s.nodeAPI(), "epoch", super.Epoch(), "roster", super.Roster().Version)
	api.set(nodes.Handler(super, super, log))
	defer api.set(nodes.Standby(journal.ErrHeld, log))
	ready()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return super.Run(ctx) })
	group.Go(func() error { connections.Watch(ctx, super); return nil })
	if secured != nil {
		group.Go(func() error { return secured.run(ctx) }) // of the one that serves only
	}
	return group.Wait()
}

// anyClient takes every client that comes to the node API: nodes join there, and each request is looked at.
func anyClient([]*x509.Certificate) error { return nil }

// What protectedFile says. Earlier versions wrote the first line only.
const (
	rowsProtected   = "The journal of this supervisor carries authentication codes. Without this file it would take records without one, once.\n"
	valuesProtected = "So do its values that decide something.\n"
)

// isProtected reports whether the journal of a data directory, and its values, are known to carry authentication codes.
func isProtected(data string) (rows, values bool, err error) {
	text, err := os.ReadFile(filepath.Join(data, protectedFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, false, nil
	}
	return err == nil, strings.Contains(string(text), valuesProtected), err
}

// noteProtected notes that the journal of a data directory carries authentication codes.
func noteProtected(data string) error {
	_, all, err := isProtected(data)
	if all || err != nil {
		return err
	}
	if err := config.WriteFile(filepath.Join(data, protectedFile), []byte(rowsProtected+valuesProtected)); err != nil {
		return fmt.Errorf("note that the journal is protected: %w", err)
	}
	return nil
}

// keep notes in the data directory what a database must not take away: that the journal is protected, and the rosters that it has.
func (s *Supervisor) keep(ctx context.Context, super *supervisor.Supervisor, rosters config.Rosters) error {
	if err := noteProtected(s.Data); err != nil {
		return err
	}
	all, err := super.Rosters(ctx, 0)
	if err == nil {
		_, err = rosters.Add(all...)
	}
	if err != nil {
		return fmt.Errorf("keep the rosters of the journal: %w", err)
	}
	return nil
}

// exchangeable is a handler that can be exchanged while it serves.
type exchangeable struct{ now atomic.Pointer[http.Handler] }

func (e *exchangeable) set(h http.Handler) { e.now.Store(&h) }

func (e *exchangeable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*e.now.Load()).ServeHTTP(w, r)
}

// examineRedis warns of settings of Redis that do not fit, once, as soon as it answers.
func examineRedis(ctx context.Context, redis *redisqueue.Queue, log *slog.Logger) error {
	for {
		version, found, err := redis.Examine(ctx)
		if err == nil {
			for _, f := range found {
				log.WarnContext(ctx, "Redis should be set up otherwise: "+f.What, "version", version, "fix", f.Fix)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// trustedRosters returns the rosters of the cluster that the supervisor believes in: what it was told, or what it joined before.
func (s *Supervisor) trustedRosters() (config.Rosters, error) {
	pin := s.Cluster
	if s.Token != nil {
		if pin != "" && pin != s.Token.Pin {
			return config.Rosters{}, writ.Errorf(writ.CodeTokenInvalid, "the token is for the cluster %s, not for %s", s.Token.Pin, pin)
		}
		pin = s.Token.Pin
	}
	kept, err := config.FindRosters(s.Data)
	switch {
	case err == nil && pin != "" && kept.Cluster != pin:
		return kept, writ.Errorf(writ.CodeConflict, "%s belongs to the cluster %s", s.Data, kept.Cluster).WithHint("use another --data for this one")
	case err == nil:
		return kept, nil
	case writ.CodeOf(err) != writ.CodeNotFound:
		return kept, err
	case pin == "":
		return kept, writ.Errorf(writ.CodeUsage, "the supervisor does not know which cluster to trust").
			WithHint("start it as `writ dc add` says, with --join; or with --cluster and the cluster's id, and add its key with `writ dc add --key`")
	}
	return config.RostersIn(s.Data, pin), nil
}

// awaitDatacenter returns the datacenter that the roster gives to this key. If it gives none, it registers with the coordinators and
// waits.
func (s *Supervisor) awaitDatacenter(ctx context.Context, rosters config.Rosters, key ed25519.PrivateKey) (*identity.Datacenter, error) {
	public := PublicKey(key)
	latest, err := rosters.Latest()
	if err != nil {
		return nil, err
	}
	if latest != nil {
		if d := latest.DatacenterOf(public); d != nil {
			return d, nil
		}
	}
	switch {
	case len(s.Coordinators) == 0:
		return nil, writ.Errorf(writ.CodeUsage, "no coordinator is given, and the roster does not name this supervisor").WithHint("--coordinator URL")
	case !writ.ValidName(s.Name):
		return nil, writ.Errorf(writ.CodeUsage, "%q cannot be the name of a datacenter", s.Name).WithHint("--dc takes 1 to 63 lower-case letters, digits and hyphens")
	}
	registration := s.registration(public)
	by := coordinators(rosters)
	defer by.CloseIdleConnections()
	logged := ""
	for {
		d, err := s.ask(ctx, by, rosters, registration)
		if d != nil || err != nil && !writ.AsError(err).Retryable() {
			return d, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		state := "waiting until the roster names this supervisor: a root operator adds it with `writ dc add`"
		if err != nil {
			state = "no coordinator answers; trying again"
		}
		if state != logged {
			logged = state
			s.Log.InfoContext(ctx, state, "name", s.Name, "fingerprint", identity.Fingerprint(public), "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(askCoordinatorEvery):
		}
	}
}

// secured reports whether the node API speaks TLS: everywhere but on loopback.
func (s *Supervisor) secured() bool { return !onLoopback(s.Listener.Addr()) }

// nodeAPI is the address of the node API, as far as the supervisor knows it.
func (s *Supervisor) nodeAPI() string {
	if s.secured() {
		return "https://" + s.Listener.Addr().String()
	}
	return "http://" + s.Listener.Addr().String()
}

// coordinators is how coordinators are reached that rosters name.
func coordinators(rosters config.Rosters) *http.Client {
	return &http.Client{Transport: &transport.Transport{
		Rosters: rosters, Anchor: identity.Anchor{Cluster: rosters.Cluster}, Want: transport.Coordinator, Fetch: transport.FromCoordinator, PublicNames: true,
	}}
}

// registration is what the supervisor says of itself. The token proves it to the person who made the token.
func (s *Supervisor) registration(public ed25519.PublicKey) api.NewRegistration {
	r := api.NewRegistration{Name: s.Name, Key: public, Nonce: make([]byte, identity.NonceSize), URL: s.nodeAPI()}
	_, _ = rand.Read(r.Nonce) // never fails
	if s.Token != nil {
		r.Token = s.Token.ID
		r.Proof = s.Token.Prove(identity.RegistrationText(r.Token, r.Name, public, r.Nonce))
	}
	return r
}

// ask fetches what is new of the roster from the first coordinator that answers, and registers there if it does not name the key yet.
func (s *Supervisor) ask(ctx context.Context, by *http.Client, rosters config.Rosters, registration api.NewRegistration) (*identity.Datacenter, error) {
	var last error
	for _, address := range s.Coordinators {
		d, err := askOne(ctx, by, address, rosters, registration)
		if d != nil || err == nil {
			return d, nil
		}
		if last == nil || writ.AsError(last).Retryable() { // what ends the wait is told before what may pass
			last = err
		}
	}
	return nil, last
}

func askOne(ctx context.Context, by *http.Client, address string, rosters config.Rosters, registration api.NewRegistration) (*identity.Datacenter, error) {
	client, err := api.NewClient(address, api.WithHTTPClient(by))
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "%q is no address of a coordinator: %v", address, err)
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	after := 0
	if latest, err := rosters.Latest(); err != nil {
		return nil, err
	} else if latest != nil {
		after = latest.Version
	}
	answer, err := api.Answer[api.Rosters](client.GetRoster(ctx, &api.GetRosterParams{After: &after}))
	if err != nil {
		return nil, err
	}
	latest, err := rosters.Add(answer.Signed...)
	if err != nil {
		return nil, err
	}
	if latest != nil {
		if d := latest.DatacenterOf(registration.Key); d != nil {
			return d, nil
		}
	}
	_, err = api.Answer[api.Registration](client.Register(ctx, registration))
	if writ.CodeOf(err) == writ.CodeConflict { // it was taken into the roster since: the next look finds it there
		return nil, nil
	}
	return nil, err
}

// serveHTTP serves until ctx ends; then requests that are being answered get some time. note, which may be nil, is told of connections.
func serveHTTP(ctx context.Context, l net.Listener, handler http.Handler, grace time.Duration, log *slog.Logger, note func(net.Conn, http.ConnState)) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: limit.ErrorLog(log), ConnState: note,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer stop()
	if err := server.Shutdown(ending); err != nil {
		_ = server.Close() // what did not end in time is cut
	}
	<-served
	return nil
}
