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
	simSeed  = flag.Uint64("seed", 0, "simulate this seed only, and log what happens")
	simSeeds = flag.Int("seeds", 0, "how many seeds to simulate")
	simFrom  = flag.Uint64("from", 1, "the first of them: who has not the time for all goes on from there")
	simFor   = flag.Duration("virtual", 0, "how long faults happen, in virtual time")
	simNodes = flag.Int("nodes", 0, "how many nodes the datacenter has")
)

// TestSimulation runs whole datacenters in virtual time, with real supervisors, runners, journals and envelopes, while everything around them
// goes wrong: processes die at any step, nodes are removed and others join, the queue loses, repeats, delays and forgets, disks fill up, drivers
// fail, hang and ignore their end. What must hold meanwhile and afterwards is in simulation_check_test.go.
//
// Promise: Failures: Each open run has a waker that survives its supervisor: a due pass, a time, or a member node.
// How: The waker of a call is in indexed columns; a watch finds a run without a waker within minutes, wakes it and
// logs a bug; `writ doctor --journal FILE` lists such runs.
// Also: TestEveryRunHasAWakerOrIsNamed, TestDatabaseRestartInRecoveryLosesNoRun,
// TestDrainingSupervisorStealsNoRun, TestStaleListChangesNoRecoveredRun,
// TestTheNextSupervisorFinishesPendingWork, TestTheWatchWakesAStalledRun, TestDoctorFindsRunsThatNoEventWouldWake
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
	was := debug.SetGCPercent(400) // little is kept, and what is thrown away is much
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
			t.Errorf("only after %d of %d events, it was checked what wakes the open runs", total.looks, total.moments)
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
				t.Logf("again: go test ./supervisor -run 'TestSimulation$' -seed %d -virtual %s -nodes %d", l.seed, l.virtual, l.nodes)
				if *simSeed == 0 {
					l.keep(t, keptSeeds)
				}
			}
		})
	}
}

// simulation is a datacenter whose parts die and come back.
type simulation struct {
	*sim
	t       *testing.T
	seed    uint64
	luck    *rand.Rand // of the one goroutine that makes things happen
	calm    atomic.Bool
	late    sync.WaitGroup // messages on their way
	crashed chan *process
	plan    []event
	log     *slog.Logger
	work    []*simRun
	hosts   []*simNode
	left    []*simNode  // that were removed for good
	leaving []departure // under way
	process *process    // the supervisor's
	lives   int
	makers  map[writ.UID]string // the node that made a resource
	watch   *observer
	wall    *clock         // of supervisors; that of the sim is right
	faults  map[string]int // by kind
	resumed map[writ.RunID]int
	took    time.Duration // until all had ended
	byID    sync.Map      // the process of each node
	said    time.Time     // when it was said last how far it is
	heldAt  atomic.Int64  // since when all work is on hold for certain, unix nanoseconds; 0 if it is not
	events  int           // that happened
	looks   int           // at what wakes the open runs, behind an event
}

// event is something that happens at a time.
type event struct {
	at time.Time
	do func()
}

// nodeAPI is the supervisor's node API, and what people reach: closed while there is none.
type nodeAPI struct {
	mu  sync.Mutex
	now *supervisor.Supervisor
	on  *journal.Journal
}

// leave closes it behind a supervisor, unless another one is there.
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
		return nil, nil, writ.Errorf(writ.CodeUnreachable, "nobody answers")
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

// simNode is a node that dies and comes back on the same disk and host.
type simNode struct {
	name    string
	dir     string
	token   string
	host    *simHost
	id      atomic.Value // writ.NodeID, once it has joined
	clock   clock
	drift   time.Duration // of its clock, while nothing else is wrong with it
	leaves  bool          // it is being removed: its runner does not come back
	process *process
	journal *runnerjournal.Journal
}

func simulate(t *testing.T, l life) {
	s := &simulation{
		sim: found(t), t: t, seed: l.seed, luck: fate(l.seed, "plan"), crashed: make(chan *process, 1000),
		log: slog.New(&vigilant{slog.DiscardHandler, t}), wall: new(clock), faults: make(map[string]int), resumed: make(map[writ.RunID]int),
	}
	s.said = time.Now()
	s.clock.set(rightTime)
	s.wall.set(rightTime)
	home := testenv.HomeInMemory(t, "simulation") // what is lost with the power is nothing of this test
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
		s.log = slog.New(&vigilant{slog.NewTextHandler(os.Stderr, nil), t})
	}
	s.calm.Store(true)
	s.startSupervisor()
	s.watch = newObserver(s)
	t.Cleanup(s.end)
	s.sim.Supervisor, _, _ = s.api.get() // who signs looks there for the cluster
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

// newNode lets a machine join that nobody knows.
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

// vigilant is a log in which one message fails the test.
type vigilant struct {
	slog.Handler
	t *testing.T
}

func (v *vigilant) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || v.Handler.Enabled(ctx, level)
}

func (v *vigilant) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == supervisor.NoWakeUp {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool { text += fmt.Sprintf(" %s", a); return true })
		v.t.Error(text)
	}
	return v.Handler.Handle(ctx, r)
}

// rightTime is what clocks that are right are ahead of virtual time, so that they can be set back: nothing is signed before the year 2000.
const rightTime = 1000 * time.Hour

// after lets something happen in a while.
func (s *simulation) after(d time.Duration, do func()) {
	s.plan = append(s.plan, event{time.Now().Add(d), do})
}

// often lets something happen again and again until a time, on average every so often.
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

// until lets happen what is planned, in order, and takes away processes that died by themselves.
func (s *simulation) until(end time.Time) {
	for {
		if time.Now().After(s.said.Add(6 * time.Hour)) {
			s.said = time.Now()
			s.t.Logf("seed %d: %d runs so far, at %s", s.seed, len(s.work), s.said)
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
			s.takeAway(p)
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

// schedule plans work and faults.
func (s *simulation) schedule(end time.Time) {
	pick := func() *simNode { return s.hosts[s.luck.IntN(len(s.hosts))] }
	span := func(most time.Duration) time.Duration { return time.Duration(s.luck.Int64N(int64(most))) }
	s.often(30*time.Second, end, s.submitSome)
	s.often(2*time.Minute, end, s.resumeSome)
	s.holdSome(end)
	s.often(25*time.Minute, end, s.usurp)
	s.often(15*time.Minute, end, func() { s.setClock("supervisor", s.wall, 0, span(3*time.Minute)) })
	s.often(30*time.Minute/time.Duration(len(s.hosts)), end, func() { n := pick(); s.setClock(n.name, &n.clock, n.drift, span(3*time.Minute)) })
	s.often(5*time.Minute, end, func() { s.takeAway(s.process) })
	s.often(20*time.Minute/time.Duration(len(s.hosts)), end, func() { s.takeAway(pick().process) })
	s.often(6*time.Minute, end, func() { s.note("queues lost"); s.queue.Flush() })
	s.often(10*time.Minute, end, func() {
		saved := s.queue.Save()
		s.after(span(2*time.Minute), func() { s.note("queues that went back in time"); s.queue.Restore(saved) })
	})
	s.often(8*time.Minute, end, func() {
		s.part(pick(), s.luck.IntN(3) > 0, s.luck.IntN(3) > 0, s.luck.IntN(3) == 0, span(2*time.Minute))
	})
	s.often(8*time.Minute, end, func() { s.cut(s.process, span(90*time.Second)) })
	s.often(20*time.Minute/time.Duration(len(s.hosts)), end, func() { s.cut(pick().process, span(90*time.Second)) })
	s.often(10*time.Minute, end, func() { s.fill(s.place, span(20*time.Second)) })
	s.often(20*time.Minute/time.Duration(len(s.hosts)), end, func() { s.fill(filepath.Join(pick().dir, "runner.db"), span(20*time.Second)) })
}

// note counts a fault.
func (s *simulation) note(kind string, details ...any) {
	s.log.Info(kind, details...)
	s.faults[kind]++
}

// setClock lets a clock be wrong for a while: by little, by minutes, or by more than a day.
func (s *simulation) setClock(of string, c *clock, drift, wrong time.Duration) {
	most := []time.Duration{20 * time.Second, 10 * time.Minute, 10 * time.Minute, 60 * time.Hour}[s.luck.IntN(4)]
	ahead := time.Duration(s.luck.Int64N(int64(2*most))) - most
	if c == s.wall { // a day later every submission has expired; and what a run destroys waits until nodes believe when it was accepted
		ahead = max(min(ahead, time.Minute), -10*time.Minute)
	}
	s.note("clocks set", "of", of, "ahead", ahead, "for", wrong)
	c.set(rightTime + drift + ahead)
	s.after(wrong, func() { c.set(rightTime + drift) })
}

// usurp lets another supervisor take over while the one before stands still. It wakes up later, and still believes that it serves.
func (s *simulation) usurp() {
	old := s.process
	select {
	case <-old.gone:
		return // nobody is there
	default:
	}
	s.note("supervisors usurped")
	awake := make(chan struct{})
	old.still.Store(&awake)
	s.startSupervisor()
	s.after(time.Duration(s.luck.Int64N(int64(30*time.Second))), func() {
		close(awake)
		s.after(3*time.Second, func() { s.takeAway(old) })
	})
}

// cut lets a process lose its way to the queue for a while.
func (s *simulation) cut(p *process, away time.Duration) {
	s.note("ways to the queue cut", "process", p.name, "for", away)
	p.queue.Cut(true)
	p.heard.Store(math.MaxInt64)
	s.after(away, func() {
		p.queue.Cut(false)
		p.heard.Store(time.Now().UnixNano())
	})
}

const diskFull = "disk full"

// fill lets writes to a store fail for a while, as a full disk does.
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

// exec changes a store behind the back of whoever has it open: something for each way to write into each of its tables.
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
		luck: fate(s.seed, "process", name, s.lives),
	}
	p.heard.Store(time.Now().UnixNano())
	return p
}

// startSupervisor begins a life of the supervisor. If it cannot start it tries again, as what supervises processes does.
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
		p.over(errors.Join(err, j.Close()))
	}()
}

// startNode begins a life of a node's runner.
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
		p.over(errors.Join(err, j.Close()))
	}()
}

// takeAway kills a process, unless that was done, and lets the next one begin after a while.
func (s *simulation) takeAway(p *process) {
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

// patience is how long the simulation waits for what must not take long. In virtual time that costs nothing, and a wait without an end would
// never be seen: everybody else goes on.
const patience = 20 * time.Minute

// endOf waits for the end of a process that was told to end.
func (s *simulation) endOf(p *process) error {
	select {
	case err := <-p.ended:
		return err
	case <-time.After(patience):
		return fmt.Errorf("it does not end:\n%s", stacks())
	}
}

// arrive waits for the messages on their way.
func (s *simulation) arrive() {
	all := make(chan struct{})
	go func() {
		s.late.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(patience):
		s.t.Fatalf("somebody still has no answer:\n%s", stacks())
	}
}

// stacks says what all goroutines are at.
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

// startAgain begins the next life of whoever p was.
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

// heal ends all faults: whoever is away comes back.
func (s *simulation) heal() {
	s.log.Info("calm")
	s.calm.Store(true)
	synctest.Wait()
	for drained := false; !drained; {
		select {
		case p := <-s.crashed:
			s.takeAway(p)
		default:
			drained = true
		}
	}
	s.makeRoom(s.place)
	for _, n := range s.hosts {
		s.makeRoom(filepath.Join(n.dir, "runner.db"))
	}
	// What is still to come is an end of something, which may lead to another one; what would begin says that it is too late.
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
