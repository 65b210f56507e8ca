package supervisor_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/test/testenv"
	"writ/runner"
	runnerjournal "writ/runner/journal"
	"writ/runner/member"
	"writ/supervisor"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

var (
	simSeed  = flag.Uint64("seed", 0, "simulate only this seed, and log its events")
	simSeeds = flag.Int("seeds", 0, "number of seeds to simulate")
	simFrom  = flag.Uint64("from", 1, "first seed; allows continuing an earlier series")
	simFor   = flag.Duration("virtual", 0, "duration of the faults, in virtual time")
	simNodes = flag.Int("nodes", 0, "number of nodes in the datacenter")
)

// TestSimulation runs whole datacenters in virtual time, with real supervisors, runners, journals and envelopes, under
// constant faults: processes die at any step, nodes are removed and others join, the queue loses, repeats, delays and
// forgets messages, disks fill up, drivers fail, hang and ignore their deadline. The checks are in
// simulation_check_test.go.
//
// Promise: Failures: Each open run has a waker that survives its supervisor: a due pass, a time, or a member node.
// How: The waker of a call is in indexed columns; a watch finds a run without a waker within minutes, wakes it and
// logs a bug; `writ doctor --journal FILE` lists such runs.
// Also: TestEveryRunHasAWakerOrIsNamed, TestDatabaseRestartInRecoveryLosesNoRun,
// TestDrainingSupervisorStealsNoRun, TestStaleListChangesNoRecoveredRun,
// TestNextSupervisorFinishesPendingWork, TestWatchWakesStalledRun, TestDoctorFindsRunsThatNoEventWouldWake
//
// Promise: Recovery: Every run ends within 5 minutes after the last fault, without a doubled or lost effect or a
// foreign result.
// How: Whole datacenters run in virtual time from a seed; faults are kills at any step, a bad queue, full disks,
// wrong clocks, takeovers and failing drivers; events have no gap and reservations are right.
func TestSimulation(t *testing.T) {
	seeds, faulty, size := 20, time.Hour, 10
	switch {
	case testenv.IsLong():
		seeds, faulty, size = 200, 24*time.Hour, 50
	case raceEnabled || !checksumsOnly:
		seeds, faulty, size = 2, 10*time.Minute, 5
	}
	was := debug.SetGCPercent(400) // few objects survive, and most are garbage
	t.Cleanup(func() { debug.SetGCPercent(was) })
	if *simSeeds > 0 {
		seeds = *simSeeds
	}
	if *simFor > 0 {
		faulty = *simFor
	}
	if *simNodes > 0 {
		size = *simNodes
	}
	t.Cleanup(func() {
		t.Logf("%d seeds: %s", total.seeds, &total)
		if *simSeed == 0 && total.looks < total.moments*2/3 {
			t.Errorf("wakers were checked after only %d of %d events", total.looks, total.moments)
		}
	})
	var lives []life
	if *simSeed != 0 {
		lives = []life{{*simSeed, faulty, size}}
	} else {
		lives = keptLives(t, keptSeeds, life{virtual: faulty, nodes: size}.size())
		for i := range seeds {
			lives = append(lives, life{*simFrom + uint64(i), faulty, size})
		}
	}
	for _, l := range lives {
		t.Run(fmt.Sprint(l.seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { simulate(t, l) })
			if t.Failed() {
				t.Logf("repeat: go test ./supervisor -run 'TestSimulation$' -seed %d -virtual %s -nodes %d", l.seed, l.virtual, l.nodes)
				if *simSeed == 0 {
					l.keep(t, keptSeeds)
				}
			}
		})
	}
}

// simulation is a datacenter whose processes die and return.
type simulation struct {
	*sim
	t       *testing.T
	seed    uint64
	luck    *rand.Rand // used only by the goroutine that causes the events
	calm    atomic.Bool
	late    sync.WaitGroup // messages in transit
	crashed chan *process
	plan    []event
	log     *slog.Logger
	work    []*simRun
	hosts   []*simNode
	left    []*simNode  // permanently removed nodes
	leaving []departure // departures in progress
	process *process    // process of the supervisor
	lives   int
	makers  map[writ.UID]string // node that created each resource
	watch   *observer
	wall    *clock         // clock of supervisors; the clock of the sim is correct
	faults  map[string]int // number of faults by kind
	resumed map[writ.RunID]int
	took    time.Duration // time until all runs had ended
	byID    sync.Map      // current process of each node
	lastLog time.Time     // time of the last progress log
	heldAt  atomic.Int64  // start of a hold of all work in unix nanoseconds; 0 without one
	events  int           // number of events
	looks   int           // number of events with checked wakers
}

// event is a planned event.
type event struct {
	at time.Time
	do func()
}

// nodeAPI is the node API and the API for people. It is unreachable without a supervisor.
type nodeAPI struct {
	mu  sync.Mutex
	now *supervisor.Supervisor
	on  *journal.Journal
}

// leave makes the API unreachable, unless another supervisor has replaced s.
func (d *nodeAPI) leave(s *supervisor.Supervisor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == s {
		d.now, d.on = nil, nil
	}
}

func (d *nodeAPI) set(s *supervisor.Supervisor, j *journal.Journal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now, d.on = s, j
}

func (d *nodeAPI) get() (*supervisor.Supervisor, *journal.Journal, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == nil {
		return nil, nil, writ.Errorf(writ.CodeUnreachable, "no supervisor")
	}
	return d.now, d.on, nil
}

func (d *nodeAPI) Greet(ctx context.Context, hello nodes.Hello) (nodes.Proof, error) {
	s, _, err := d.get()
	if err != nil {
		return nodes.Proof{}, err
	}
	return s.Greet(ctx, hello)
}

func (d *nodeAPI) Admit(ctx context.Context, claim nodes.Claim) (nodes.Welcome, error) {
	s, _, err := d.get()
	if err != nil {
		return nodes.Welcome{}, err
	}
	return s.Admit(ctx, claim)
}

func (d *nodeAPI) Rosters(ctx context.Context, after int) ([][]byte, error) {
	s, _, err := d.get()
	if err != nil {
		return nil, err
	}
	return s.Rosters(ctx, after)
}

func (d *nodeAPI) Payload(ctx context.Context, digest writ.Digest) ([]byte, error) {
	s, _, err := d.get()
	if err != nil {
		return nil, err
	}
	return s.Payload(ctx, digest)
}

// simNode is a node that dies and returns with the same disk and host.
type simNode struct {
	name    string
	dir     string
	token   string
	host    *simHost
	id      atomic.Value // writ.NodeID, set when it has joined
	clock   clock
	drift   time.Duration // error of its clock without other faults
	leaves  bool          // it is being removed, so its runner does not return
	process *process
	journal *runnerjournal.Journal
}

func simulate(t *testing.T, l life) {
	s := &simulation{
		sim: newCluster(t), t: t, seed: l.seed, luck: randomFor(l.seed, "plan"), crashed: make(chan *process, 1000),
		wall: new(clock), faults: make(map[string]int), resumed: make(map[writ.RunID]int),
	}
	s.log = slog.New(&vigilant{slog.DiscardHandler, s})
	s.lastLog = time.Now()
	s.clock.set(rightTime)
	s.wall.set(rightTime)
	home := testenv.HomeInMemory(t, "simulation") // this test does not simulate power failures
	s.place = filepath.Join(home, "journal.db")
	next, err := s.roster.Successor(s.roster.Created)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Datacenter(theDatacenter).SetSilence(silences[l.seed%uint64(len(silences))]); err != nil {
		t.Fatal(err)
	}
	s.adopt(next)
	if *simSeed != 0 {
		s.log = slog.New(&vigilant{slog.NewTextHandler(os.Stderr, nil), s})
	}
	s.calm.Store(true)
	s.startSupervisor()
	s.watch = newObserver(s)
	t.Cleanup(s.end)
	s.sim.Supervisor, _, _ = s.api.get() // signers read the cluster from it
	for i := range l.nodes {
		s.hosts = append(s.hosts, s.newNode(fmt.Sprint("n", i+1), filepath.Join(home, fmt.Sprint("n", i+1)), s.token()))
	}
	end := time.Now().Add(l.virtual)
	s.schedule(end)
	s.calm.Store(false)
	s.until(end)
	s.heal()
	s.finish()
	s.tally(l.virtual)
}

// newNode starts a new machine, which joins with token.
func (s *simulation) newNode(name, dir string, token identity.Token) *simNode {
	n := &simNode{name: name, dir: dir, token: token.String(), host: newSimHost(s.seed)}
	if err := os.Mkdir(n.dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	n.host.calm = s.calm.Load
	n.drift = time.Duration(s.luck.Int64N(int64(20*time.Second))) - 10*time.Second
	n.clock.set(rightTime + n.drift)
	s.startNode(n)
	return n
}

// vigilant is a log that fails the test on one message.
type vigilant struct {
	slog.Handler
	of *simulation
}

func (v *vigilant) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || v.Handler.Enabled(ctx, level)
}

func (v *vigilant) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == supervisor.NoWakeUp {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool {
			text += fmt.Sprintf(" %s", a)
			if run, is := a.Value.Any().(writ.RunID); is {
				v.of.explain(run)
			}
			return true
		})
		v.of.t.Error(text)
	}
	return v.Handler.Handle(ctx, r)
}

// rightTime is the offset of correct clocks from virtual time. It leaves room to set clocks back: no text is signed
// before the year 2000.
const rightTime = 1000 * time.Hour

// after plans an event.
func (s *simulation) after(d time.Duration, do func()) {
	s.plan = append(s.plan, event{time.Now().Add(d), do})
}

// often plans repeated events until end, with the given average pause.
func (s *simulation) often(every time.Duration, end time.Time, do func()) {
	var next func()
	next = func() {
		if time.Now().Before(end) {
			do()
			s.after(time.Duration(s.luck.ExpFloat64()*float64(every)), next)
		}
	}
	s.after(time.Duration(s.luck.ExpFloat64()*float64(every)), next)
}

// until runs planned events in order until end, and restarts processes that died.
func (s *simulation) until(end time.Time) {
	for {
		if time.Now().After(s.lastLog.Add(6 * time.Hour)) {
			s.lastLog = time.Now()
			s.t.Logf("seed %d: %d runs so far, at %s", s.seed, len(s.work), s.lastLog)
		}
		first := -1
		for i, e := range s.plan {
			if first < 0 || e.at.Before(s.plan[first].at) {
				first = i
			}
		}
		at := end
		if first >= 0 && s.plan[first].at.Before(end) {
			at = s.plan[first].at
		}
		timer := time.NewTimer(time.Until(at))
		select {
		case p := <-s.crashed:
			timer.Stop()
			s.kill(p)
			s.wantWakers()
			continue
		case <-timer.C:
		}
		if at.Equal(end) {
			return
		}
		e := s.plan[first]
		s.plan = append(s.plan[:first], s.plan[first+1:]...)
		e.do()
		s.replaceGone()
		s.wantWakers()
	}
}

// schedule plans the work and the faults.
func (s *simulation) schedule(end time.Time) {
	pick := func() *simNode { return s.hosts[s.luck.IntN(len(s.hosts))] }
	span := func(most time.Duration) time.Duration { return time.Duration(s.luck.Int64N(int64(most))) }
	s.often(30*time.Second, end, s.submitSome)
	s.often(2*time.Minute, end, s.resumeSome)
	s.holdSome(end)
	s.often(25*time.Minute, end, s.takeOver)
	s.often(15*time.Minute, end, func() { s.setClock("supervisor", s.wall, 0, span(3*time.Minute)) })
	s.often(30*time.Minute/time.Duration(len(s.hosts)), end, func() { n := pick(); s.setClock(n.name, &n.clock, n.drift, span(3*time.Minute)) })
	s.often(5*time.Minute, end, func() { s.kill(s.process) })
	s.often(20*time.Minute/time.Duration(len(s.hosts)), end, func() { s.kill(pick().process) })
	s.often(6*time.Minute, end, func() { s.note("queues lost"); s.queue.Flush() })
	s.often(10*time.Minute, end, func() {
		saved := s.queue.Save()
		s.after(span(2*time.Minute), func() { s.note("queues restored from a snapshot"); s.queue.Restore(saved) })
	})
	s.often(8*time.Minute, end, func() {
		s.depart(pick(), s.luck.IntN(3) > 0, s.luck.IntN(3) > 0, s.luck.IntN(3) == 0, span(2*time.Minute))
	})
	s.often(8*time.Minute, end, func() { s.cut(s.process, span(90*time.Second)) })
	s.often(20*time.Minute/time.Duration(len(s.hosts)), end, func() { s.cut(pick().process, span(90*time.Second)) })
	s.often(10*time.Minute, end, func() { s.fill(s.place, span(20*time.Second)) })
	s.often(20*time.Minute/time.Duration(len(s.hosts)), end, func() { s.fill(filepath.Join(pick().dir, "runner.db"), span(20*time.Second)) })
}

// note logs and counts a fault.
func (s *simulation) note(kind string, details ...any) {
	s.log.Info(kind, details...)
	s.faults[kind]++
}

// setClock sets a clock wrong for a while: by seconds, by minutes, or by more than a day.
func (s *simulation) setClock(of string, c *clock, drift, wrong time.Duration) {
	most := []time.Duration{20 * time.Second, 10 * time.Minute, 10 * time.Minute, 60 * time.Hour}[s.luck.IntN(4)]
	ahead := time.Duration(s.luck.Int64N(int64(2*most))) - most
	// A day later all submissions have expired, and a run may destroy nothing until nodes accept its time of acceptance.
	if c == s.wall {
		ahead = max(min(ahead, time.Minute), -10*time.Minute)
	}
	s.note("clocks set", "of", of, "ahead", ahead, "for", wrong)
	c.set(rightTime + drift + ahead)
	s.after(wrong, func() { c.set(rightTime + drift) })
}

// takeOver suspends the supervisor and starts another one. The old one resumes later and still believes that it holds the
// lease.
func (s *simulation) takeOver() {
	old := s.process
	select {
	case <-old.gone:
		return // no supervisor is running
	default:
	}
	s.note("supervisors usurped")
	awake := make(chan struct{})
	old.suspended.Store(&awake)
	s.startSupervisor()
	s.after(time.Duration(s.luck.Int64N(int64(30*time.Second))), func() {
		close(awake)
		s.after(3*time.Second, func() { s.kill(old) })
	})
}

// cut disconnects a process from the queue for a while.
func (s *simulation) cut(p *process, away time.Duration) {
	s.note("connections to the queue cut", "process", p.name, "for", away)
	p.queue.Cut(true)
	p.heard.Store(math.MaxInt64)
	s.after(away, func() {
		p.queue.Cut(false)
		p.heard.Store(time.Now().UnixNano())
	})
}

const diskFull = "disk full"

// fill makes writes to a store fail for a while, like a full disk.
func (s *simulation) fill(path string, full time.Duration) {
	s.note("disks full", "path", path, "for", full)
	s.exec(path, func(trigger, on string) string {
		return fmt.Sprintf("CREATE TRIGGER IF NOT EXISTS %s BEFORE %s BEGIN SELECT RAISE(ABORT, '%s'); END", trigger, on, diskFull)
	})
	s.after(full, func() { s.makeRoom(path) })
}

func (s *simulation) makeRoom(path string) {
	s.exec(path, func(trigger, _ string) string { return "DROP TRIGGER IF EXISTS " + trigger })
}

// exec changes a store that another process has open. It runs one statement for each table and kind of write.
func (s *simulation) exec(path string, text func(trigger, on string) string) {
	tables := []string{"runs", "calls", "results", "events"}
	if path != s.place {
		tables = []string{"node", "jobs", "cancels"}
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	all := []string{"BEGIN IMMEDIATE"}
	for _, table := range tables {
		for _, act := range []string{"INSERT", "UPDATE"} {
			all = append(all, text("full_"+table+"_"+act, act+" ON "+table))
		}
	}
	if _, err := db.Exec(strings.Join(append(all, "COMMIT"), ";\n")); err != nil {
		s.t.Fatal(err)
	}
}

func (s *simulation) newProcess(name string) *process {
	s.lives++
	p := &process{
		sim: s, name: name, queue: s.queue.Attach(), gone: make(chan struct{}), ended: make(chan error, 1),
		luck: randomFor(s.seed, "process", name, s.lives),
	}
	p.heard.Store(time.Now().UnixNano())
	return p
}

// startSupervisor starts a supervisor. If its start fails, the simulation restarts it, like a service manager.
func (s *simulation) startSupervisor() {
	p := s.newProcess("supervisor")
	s.process = p
	j, err := journal.Open(s.t.Context(), s.place)
	if err != nil {
		s.t.Fatal(err)
	}
	sup, err := supervisor.Open(s.t.Context(), supervisor.Config{
		Datacenter: theDatacenter, Pin: identity.ClusterOf(s.person.PublicKey()), Key: s.key, Journal: j,
		Queue: &shakyQueue{p.queue, p}, Evaluator: s.evaluator, Now: s.wall.now, Log: s.log,
	}, s.rosters)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	p.stop = stop
	s.api.set(sup, j)
	go func() {
		err := sup.Run(ctx)
		s.api.leave(sup)
		p.reportEnd(errors.Join(err, j.Close()))
	}()
}

// startNode starts the runner of a node.
func (s *simulation) startNode(n *simNode) {
	p := s.newProcess(n.name)
	p.node, n.process = n, p
	n.host.dies = func(string) error { return p.crash(context.Background(), 0.004) }
	j, err := runnerjournal.Open(s.t.Context(), filepath.Join(n.dir, "runner.db"))
	if err != nil {
		s.t.Fatal(err)
	}
	n.journal = j
	ctx, stop := context.WithCancel(s.t.Context())
	p.stop = stop
	go func() {
		joined, err := member.Join(ctx, member.Joining{Dir: n.dir, API: &s.api, Token: n.token, Name: n.name})
		if err == nil {
			n.id.Store(joined.Node())
			s.byID.Store(joined.Node(), p)
			r := &runner.Runner{
				Member: joined, API: &s.api, Queue: &shakyQueue{p.queue, p}, Journal: j, Drivers: n.host.drivers(), Grace: time.Nanosecond,
				Slots: 4, Capacity: writ.Capacity{CPUs: 16, MemoryMiB: 65536, DiskGiB: 1000}, Now: n.clock.now,
			}
			err = r.Run(ctx)
		}
		p.reportEnd(errors.Join(err, j.Close()))
	}()
}

// kill kills a process unless it is gone already, and schedules its restart.
func (s *simulation) kill(p *process) {
	select {
	case <-p.gone:
		return
	default:
	}
	s.note("processes killed", "process", p.name)
	p.dead.Store(true)
	p.queue.Close()
	if p == s.process {
		s.api.set(nil, nil)
	}
	close(p.gone)
	p.stop()
	leaves := p.node != nil && p.node.leaves
	if err := s.endOf(p); err != nil && !leaves && !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), diskFull) {
		s.t.Errorf("%s ended with %v", p.name, err)
	}
	s.after(s.pauseOf(p), func() { s.startAgain(p) })
}

// waitLimit limits waits for events that should be quick. Virtual time costs nothing, and an endless wait would go
// unnoticed, because other processes keep running.
const waitLimit = 20 * time.Minute

// endOf waits for the end of a stopped process.
func (s *simulation) endOf(p *process) error {
	select {
	case err := <-p.ended:
		return err
	case <-time.After(waitLimit):
		return fmt.Errorf("the process does not end:\n%s", stacks())
	}
}

// arrive waits for the messages in transit.
func (s *simulation) arrive() {
	all := make(chan struct{})
	go func() {
		s.late.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(waitLimit):
		s.t.Fatalf("requests without an answer:\n%s", stacks())
	}
}

// stacks returns the stacks of all goroutines.
func stacks() []byte {
	text := make([]byte, 8<<20)
	return text[:runtime.Stack(text, true)]
}

func (s *simulation) pauseOf(p *process) time.Duration {
	most := 10 * time.Second
	if p != s.process && s.luck.IntN(4) == 0 {
		most = 3 * time.Minute
	}
	return time.Duration(s.luck.Int64N(int64(most)))
}

// startAgain starts the next incarnation of a process.
func (s *simulation) startAgain(p *process) {
	s.log.Info("starts again", "process", p.name)
	if p == s.process {
		s.startSupervisor()
		return
	}
	for _, n := range s.hosts {
		if n.process == p && !n.leaves {
			s.startNode(n)
		}
	}
}

// heal ends all faults and restarts all processes.
func (s *simulation) heal() {
	s.log.Info("calm")
	s.calm.Store(true)
	synctest.Wait()
	for drained := false; !drained; {
		select {
		case p := <-s.crashed:
			s.kill(p)
		default:
			drained = true
		}
	}
	s.makeRoom(s.place)
	for _, n := range s.hosts {
		s.makeRoom(filepath.Join(n.dir, "runner.db"))
	}
	// The remaining events end faults, and may plan further ends. Events that would start a fault do nothing after the
	// end.
	for len(s.plan) > 0 {
		e := s.plan[0]
		s.plan = s.plan[1:]
		e.do()
	}
	s.wall.set(rightTime)
	for _, n := range s.hosts {
		n.clock.set(rightTime)
	}
	s.replaceAll()
	s.wantWakers()
}

func (d *nodeAPI) Standing(ctx context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	s, _, err := d.get()
	if err != nil {
		return nil, err
	}
	return s.Standing(ctx, node, nonce)
}

func (d *nodeAPI) Fence(ctx context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	s, _, err := d.get()
	if err != nil {
		return nil, err
	}
	return s.Fence(ctx, node, nonce)
}

func (d *nodeAPI) Fenced(ctx context.Context, node writ.NodeID, signed []byte) error {
	s, _, err := d.get()
	if err != nil {
		return err
	}
	return s.Fenced(ctx, node, signed)
}

func (d *nodeAPI) Account(ctx context.Context, node writ.NodeID, asked []byte) ([]byte, error) {
	s, _, err := d.get()
	if err != nil {
		return nil, err
	}
	return s.Account(ctx, node, asked)
}
