package rehearsal

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/opening"
	"writ/runner"
	runnerjournal "writ/runner/journal"
	"writ/runner/member"
	"writ/runner/queue"
	"writ/runner/queue/memory"
	"writ/sal"
	"writ/sal/simulated"
	"writ/scripts"
	"writ/scripts/scripttest"
	"writ/supervisor"
	"writ/supervisor/journal"
)

// Names in the datacenter of a test.
const (
	personName     = "tester"
	datacenterName = "rehearsal"
)

// nameOf returns the name of a node, counted from 1.
func nameOf(node int) string { return fmt.Sprintf("n%d", node) }

// room is the capacity of each node. Tests of insufficient capacity inject NO_CAPACITY instead.
var room = writ.Capacity{CPUs: 1 << 20, MemoryMiB: 1 << 30, DiskGiB: 1 << 30}

// cluster is a datacenter with a real supervisor and real runners. Its journals and its queue are in memory, and its
// drivers are simulated, with faults injected by the test.
type cluster struct {
	dir        string
	nodes      int
	key        *client.Key
	person     *client.Person
	set        map[secretOf]bool // secrets that are set
	datacenter writ.DatacenterID
	journal    *journal.Journal
	super      *supervisor.Supervisor
	cues       *cues
	seen       int64 // latest event read from the journal
	revisions  map[revisionOf]int

	stops  []func() error          // stop functions, in start order
	broken context.Context         // ends when a part fails, with the failure as its cause
	breaks context.CancelCauseFunc // cancels broken
}

// revisionOf identifies a deployment of a project.
type revisionOf struct {
	project    writ.ProjectID
	deployment string
}

// newCluster creates a cluster with one datacenter and returns when its nodes are ready.
func newCluster(ctx context.Context, nodes int, evaluator scripts.Evaluator, log *slog.Logger) (_ *cluster, err error) {
	s := &cluster{nodes: nodes, cues: new(cues), revisions: make(map[revisionOf]int), set: make(map[secretOf]bool)}
	s.broken, s.breaks = context.WithCancelCause(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = makeDir(); err != nil {
		return nil, fmt.Errorf("make a directory for the test: %w", err)
	}
	s.stops = append(s.stops, func() error { return os.RemoveAll(s.dir) })

	supervisorKey, roster, err := s.govern()
	if err != nil {
		return nil, fmt.Errorf("found a cluster: %w", err)
	}
	if s.journal, err = journal.Open(ctx, ":memory:"); err != nil {
		return nil, err
	}
	s.stops = append(s.stops, s.journal.Close)
	transport := memory.New()
	s.stops = append(s.stops, transport.Close)
	bell := newFirstBeats(transport, nodes)
	s.super, err = supervisor.Open(ctx, supervisor.Config{
		Datacenter: s.datacenter, Pin: identity.ClusterOf(s.key.PublicKey()), Key: supervisorKey, Journal: s.journal, Queue: bell,
		Evaluator: evaluator, Backoff: atOnce, Log: log,
	}, [][]byte{roster})
	if err != nil {
		return nil, err
	}
	s.person.Roster = s.super.Roster()
	var members []*runner.Runner
	for n := range nodes {
		node, err := s.join(ctx, nameOf(n+1), transport.Attach(), log)
		if err != nil {
			return nil, err
		}
		members = append(members, node)
	}
	s.begin(ctx, s.super.Run) // started first, so that it receives the first message of each node
	for _, node := range members {
		s.begin(ctx, node.Run)
	}
	select {
	case <-bell.rang:
		return s, nil
	case <-s.broken.Done():
		return nil, context.Cause(s.broken)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// makeDir creates a directory for drivers and nodes. It prefers a tmpfs, because the content is temporary and drivers
// sync every step to disk.
func makeDir() (string, error) {
	const inMemory, pattern = "/dev/shm", "writ-test-"
	if dir, err := os.MkdirTemp(inMemory, pattern); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", pattern)
}

// atOnce disables the delay of retries. Tests of scripts do not test these delays.
func atOnce(int) time.Duration { return 0 }

// govern creates the keys and a roster with the datacenter.
func (s *cluster) govern() (ed25519.PrivateKey, []byte, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, nil, err
	}
	public, supervisorKey, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, nil, err
	}
	s.key = &client.Key{Signer: sshsig.NewSigner(private), Spec: "the key of a test"}
	roster, _, err := client.Found(s.key, personName, time.Now())
	if err != nil {
		return nil, nil, err
	}
	roster.Projects[0].ID = projectID(client.DefaultProject)
	if err := client.AddDatacenter(roster, writ.Datacenter{Name: datacenterName, Region: "test"}, public); err != nil {
		return nil, nil, err
	}
	s.datacenter = roster.Datacenters[0].ID
	s.person = &client.Person{Key: s.key, Name: personName}
	signed, err := identity.SignRoster(roster, s.key)
	return supervisorKey, signed, err
}

// projectID derives the id of a project from its name. The addresses of simulated drivers depend on it and must be the
// same in every test and on every machine.
func projectID(name string) writ.ProjectID {
	b := sha256.Sum256([]byte("rehearsal\x00" + name))
	b[6], b[8] = b[6]&0x0f|0x70, b[8]&0x3f|0x80 // the format of a UUID version 7
	return writ.ProjectID(fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16]))
}

// project returns a project and adds it to the roster if it is missing.
func (s *cluster) project(ctx context.Context, name string) (identity.Project, error) {
	name = cmp.Or(name, client.DefaultProject)
	signed, err := client.Successor(s.super.Roster(), s.person, time.Now(), func(next *identity.Roster) error {
		if len(next.Projects.Named(name)) == 0 {
			next.Projects = append(next.Projects, identity.Project{ID: projectID(name), Name: name})
		}
		return nil
	})
	if err == nil && signed != nil {
		_, err = s.super.AdoptRosters(ctx, [][]byte{signed})
	}
	if err != nil {
		return identity.Project{}, fmt.Errorf("add the project %s: %w", name, err)
	}
	return client.Project(s.super.Roster(), name)
}

// join makes a node a member.
func (s *cluster) join(ctx context.Context, name string, transport queue.Queue, log *slog.Logger) (*runner.Runner, error) {
	token, err := s.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("make a token: %w", err)
	}
	drivers, err := s.drivers(name)
	if err != nil {
		return nil, err
	}
	records, err := runnerjournal.Open(ctx, ":memory:")
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, records.Close)
	joined, err := member.Join(ctx, member.Joining{Dir: filepath.Join(s.dir, name), API: s.super, Token: token, Name: name, Log: log})
	if err != nil {
		return nil, err
	}
	return &runner.Runner{
		Member: joined, API: s.super, Queue: transport, Journal: records, Drivers: drivers, Capacity: room, Grace: time.Nanosecond, Log: log,
	}, nil
}

func (s *cluster) token(ctx context.Context) (string, error) {
	roster := s.super.Roster()
	token, err := identity.NewToken(roster.Cluster).For(s.datacenter, roster)
	if err != nil {
		return "", err
	}
	grant := identity.TokenGrant{
		ID: token.ID, Key: token.Key(), Role: identity.TokenRoleNode, Expires: time.Now().Add(identity.TokenValidity).UTC().Truncate(time.Second),
	}
	return token.String(), s.decide(ctx, grant.Statement)
}

// decide signs and submits a statement. fill sets its content.
func (s *cluster) decide(ctx context.Context, fill func(*identity.Statement)) error {
	by := *s.person
	by.Roster = s.super.Roster()
	statement := identity.Statement{Datacenter: s.datacenter}
	fill(&statement)
	signed, err := by.SignStatement(statement)
	if err != nil {
		return err
	}
	_, err = s.super.Decide(ctx, signed)
	return err
}

// everyPort opens all ports, because a test does not know the ports that real nodes open.
var everyPort = opening.List{{
	Address: netip.MustParseAddr("192.0.2.10"), Ranges: []opening.Range{{First: 1, Last: math.MaxUint16}},
}}

// drivers returns the drivers of a node, one per module. None of them touches the host.
func (s *cluster) drivers(node string) ([]sal.Driver, error) {
	var all []sal.Driver
	for _, module := range simulated.Modules {
		d, err := simulated.Open(simulated.Config{
			Module: module, Dir: filepath.Join(s.dir, node, "simulated"), Detail: "this is a test", Open: everyPort,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, &understudy{d, s.cues})
	}
	itself := &facts{node: node}
	all = append(all, &understudy{itself, s.cues})
	for _, d := range all {
		itself.drivers = append(itself.drivers, d.Describe())
	}
	return all, nil
}

// begin runs a part until the cluster is closed. Parts are stopped in reverse order.
func (s *cluster) begin(ctx context.Context, run func(context.Context) error) {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := run(own)
		if err != nil {
			s.breaks(fmt.Errorf("the datacenter of the test failed: %w", err))
		}
		ended <- err
	}()
	s.stops = append(s.stops, func() error {
		stop()
		return <-ended
	})
}

func (s *cluster) close() error {
	var failed error
	for _, stop := range slices.Backward(s.stops) {
		failed = errors.Join(failed, stop())
	}
	s.stops = nil
	s.breaks(nil)
	return failed
}

// await waits until a run has ended.
func (s *cluster) await(ctx context.Context, run writ.RunID) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.broken, func() { stop(context.Cause(s.broken)) })()
	for {
		events, err := s.journal.Events(ctx, s.seen, 100)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("wait for the run: %w", err)
		}
		for _, e := range events {
			s.seen = e.Seq
			if e.Run != nil && e.Run.ID == run && e.Run.State.Ended() {
				return nil
			}
		}
	}
}

// look returns a run and its calls.
func (s *cluster) look(ctx context.Context, id writ.RunID) (run *journal.Run, calls []*journal.Call, err error) {
	err = s.journal.Read(ctx, func(tx *journal.Tx) (err error) {
		if run, err = tx.Run(id); err == nil {
			calls, err = tx.Calls(id)
		}
		return err
	})
	return run, calls, err
}

// played returns the outcome of an ended run.
func (s *cluster) played(ctx context.Context, id writ.RunID) (scripttest.Rehearsed, error) {
	run, calls, err := s.look(ctx, id)
	if err != nil {
		return scripttest.Rehearsed{}, fmt.Errorf("read the run: %w", err)
	}
	done := scripttest.Rehearsed{State: string(run.State), Failure: run.Failure, Output: run.Output}
	for _, c := range calls {
		done.Calls = append(done.Calls, scripttest.RehearsedCall{Call: c.Call, Args: c.Args, Values: c.Values})
	}
	var lines []writ.LogLine
	err = s.journal.Read(ctx, func(tx *journal.Tx) (err error) {
		lines, err = tx.Logs(id, 0, scripts.MaxLogLines)
		return err
	})
	for _, l := range lines {
		done.Logs = append(done.Logs, l.Text)
	}
	return done, err
}
