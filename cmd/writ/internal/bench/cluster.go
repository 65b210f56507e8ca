// Package bench measures the performance of writ on the local machine. It runs a datacenter of real components in a
// temporary directory. The measured components are separate processes; this process acts as client and coordinator. It
// uses only their public interfaces.
package bench

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/redisd"
	"writ/cmd/writ/internal/daemon/runnerd"
	"writ/cmd/writ/internal/daemon/supervisord"
	"writ/identity"
	"writ/identity/pki"
	"writ/identity/sshsig"
	"writ/runner/queue/redisqueue"
	"writ/supervisor/link"
)

// Directories of a cluster.
const (
	supervisorDir = "supervisor"
	redisDir      = "redis"
)

// cluster is a datacenter with all its surroundings. Fill in the first fields, call begin, and call close even if begin
// fails.
type cluster struct {
	dir        string
	profile    string // file for a CPU profile of the next supervisor, "" for none
	profiles   string // directory for profiles of runners, "" for none
	version    string
	tls        bool // whether the link and the node's connections to Redis use TLS, as between hosts
	log        *slog.Logger
	logs       io.Writer // log output of child processes
	person     *client.Person
	datacenter *identity.Datacenter
	project    identity.Project

	listener   *link.Listener
	events     *events
	url        string // of the coordinator's side of the link
	nodeAPI    string // address of the supervisor's node API
	redis      redisd.Started
	redisAt    string // address for nodes, if it differs from the supervisor's
	issuer     *pki.Issuer
	supervisor *child
	processes  []*child // runners, and systems to compare with

	ctx   context.Context // for goroutines of this process
	stop  context.CancelFunc
	works *errgroup.Group
}

// begin creates the cluster and starts all components except nodes.
func (s *cluster) begin(ctx context.Context) error {
	if err := s.found(); err != nil {
		return err
	}
	s.ctx, s.stop = context.WithCancel(ctx)
	s.works, s.ctx = errgroup.WithContext(s.ctx)
	if err := s.listen(); err != nil {
		return err
	}
	var err error
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
	err = s.start(ready, func() error { return one.Run(s.ctx) })
	return redis, err
}

// start runs work in this process and returns when ready is closed.
func (s *cluster) start(ready <-chan struct{}, work func() error) error {
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

// found creates a cluster with one datacenter. The root key exists only in this process.
func (s *cluster) found() error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	key := &client.Key{Signer: sshsig.NewSigner(private)}
	coordinators, err := s.certify()
	if err != nil {
		return err
	}
	roster, first, err := client.Found(key, "bench", time.Now(), coordinators...)
	if err != nil {
		return err
	}
	if s.issuer != nil {
		s.issuer.Name.Cluster = roster.Cluster
	}
	s.person = &client.Person{Key: key, Name: "bench", Roster: roster}
	dir := filepath.Join(s.dir, supervisorDir)
	second, err := client.Successor(roster, s.person, time.Now(), func(next *identity.Roster) error {
		key, err := supervisord.Key(dir)
		if err != nil {
			return err
		}
		return client.AddDatacenter(next, writ.Datacenter{Name: "bench", Region: "here"}, daemon.PublicKey(key))
	})
	if err != nil {
		return err
	}
	if s.person.Roster, err = config.RostersIn(dir, roster.Cluster).Add(first, second); err != nil {
		return err
	}
	s.datacenter = &s.person.Roster.Datacenters[0]
	s.project = s.person.Roster.Projects[0]
	return nil
}

// certify creates the issuer of the coordinator's certificates and returns the coordinator's roster entry. It returns
// nil without TLS.
func (s *cluster) certify() ([]identity.Coordinator, error) {
	if !s.tls {
		return nil, nil
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	id := writ.NewUUID()
	s.issuer = &pki.Issuer{Key: private, Name: pki.Name{Role: pki.Coordinator, ID: id}}
	return []identity.Coordinator{{ID: id, Name: "bench", Key: public, URLs: []string{"https://127.0.0.1"}}}, nil
}

// listen opens the coordinator's side of the link.
func (s *cluster) listen() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.url = "http://" + l.Addr().String()
	if s.tls {
		s.url = "https://" + l.Addr().String()
		l = tls.NewListener(l, pki.Server(s.issuer.Certificate, nil))
	}
	s.events = newEvents()
	connected := make(chan struct{}, 1)
	s.listener = &link.Listener{
		Authenticate: s.authenticate,
		Welcome: func(context.Context, link.Hello) (link.Welcome, error) {
			return link.Welcome{Roster: s.person.Roster.Version}, nil
		},
		Events: s.events,
		Connected: func(context.Context, *link.Session) {
			select {
			case connected <- struct{}{}:
			default:
			}
		},
		Log: slog.New(slog.DiscardHandler), // disconnects of the supervisor are expected
	}
	s.events.connected = connected
	mux := http.NewServeMux()
	mux.Handle(link.Path, s.listener)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	s.works.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the link: %w", err)
		}
		return nil
	})
	s.works.Go(func() error {
		<-s.ctx.Done()
		err := server.Close()
		s.listener.Close()
		return err
	})
	return nil
}

// authenticate admits only the supervisor of the datacenter.
func (s *cluster) authenticate(_ context.Context, hello link.Hello, nonce []byte) error {
	text := identity.LinkHelloText(nonce, s.url, hello.Datacenter, hello.Journal)
	if hello.Datacenter != s.datacenter.ID || !ed25519.Verify(s.datacenter.SupervisorKey, text, hello.Signature) {
		return writ.Errorf(writ.CodeSignerUnknown, "this is not the supervisor of the benchmark")
	}
	return nil
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
	flags := []string{"--data", filepath.Join(s.dir, supervisorDir), "--coordinator", s.url, "--listen", s.nodeAPI}
	flags = append(flags, optional("--redis-listen", s.redisAt)...)
	flags = append(flags, optional("--profile", s.profile)...)
	s.supervisor, err = startChild(s.ctx, s.logs, new(memory), s.redis.URL, SupervisorName, flags...)
	if err != nil {
		return err
	}
	select {
	case <-s.events.connected:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// request sends a request to the supervisor over the link.
func (s *cluster) request(verb link.Verb, params, answer any) error {
	return s.listener.Request(s.ctx, s.datacenter.ID, verb, params, answer, nil)
}

// token returns a token that admits a node.
func (s *cluster) token() (string, error) {
	token, err := identity.NewToken(s.person.Roster.Cluster).For(s.datacenter.ID, s.person.Roster)
	if err != nil {
		return "", err
	}
	statement := identity.Statement{Datacenter: s.datacenter.ID}
	expires := time.Now().Add(identity.TokenValidity).UTC().Truncate(time.Second)
	identity.TokenGrant{ID: token.ID, Key: token.Key(), Role: identity.TokenRoleNode, Expires: expires}.Statement(&statement)
	signed, err := s.person.SignStatement(statement)
	if err == nil {
		err = s.request(link.VerbStatement, link.Statement{Signed: signed}, nil)
	}
	if err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	return token.String(), nil
}

// Plenty is a node capacity that no benchmark exhausts.
var Plenty = writ.Capacity{CPUs: 1 << 20, MemoryMiB: 1 << 30, DiskGiB: 1 << 30}

// addNode joins a node and serves it in this process, with simulated drivers.
func (s *cluster) addNode(name string, slots int) error {
	token, err := s.token()
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
	if err := s.start(ready, func() error { return node.Run(s.ctx) }); err != nil {
		return fmt.Errorf("start node %s: %w", name, err)
	}
	return s.awaitNode(name)
}

// addRunner joins a node and serves it in a child process, with simulated drivers.
func (s *cluster) addRunner(name string, slots int) (*child, error) {
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.dir, name)
	file := filepath.Join(s.dir, name+".token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return nil, fmt.Errorf("write the token: %w", err)
	}
	profile := ""
	if s.profiles != "" {
		profile = filepath.Join(s.profiles, RunnerName+".pprof")
	}
	redis := redisqueue.Server{URL: s.redis.URL}.WithoutLogin().URL
	if s.tls {
		redis = "rediss://" + s.redisAt + "/0"
	}
	flags := []string{"--data", dir, "--name", name, "--supervisor", "http://" + s.nodeAPI, "--join", "@" + file, "--slots", strconv.Itoa(slots)}
	r, err := startChild(s.ctx, s.logs, new(memory), redis, RunnerName, append(flags, optional("--profile", profile)...)...)
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, r)
	return r, s.awaitNode(name)
}

// awaitNode waits until the supervisor reports a node as ready.
func (s *cluster) awaitNode(name string) error {
	return s.events.await(s.ctx, func(e *events) bool { return e.ready[name] })
}

// sign returns the signed submission of an order.
func (s *cluster) sign(o client.Order) ([]byte, error) {
	o.Datacenter, o.Project = s.datacenter.ID, s.project
	text, err := o.Payload(s.person.Roster, s.person.Signatory(), time.Now())
	if err != nil {
		return nil, err
	}
	return s.person.SignPayload(text)
}

// submit sends a submission over the link.
func (s *cluster) submit(signed []byte) (run writ.Run, err error) {
	err = s.request(link.VerbSubmit, link.Submit{Signed: signed}, &run)
	return run, err
}

// carryOut sends a submission and returns when its run has succeeded.
func (s *cluster) carryOut(ctx context.Context, signed []byte) error {
	run, err := s.submit(signed)
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	state, err := s.events.end(ctx, run.ID)
	if err == nil && state != writ.RunSucceeded {
		err = fmt.Errorf("the run is %s", state)
	}
	return err
}
