package supervisor_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/runner/queue"
	"writ/sal"
	"writ/supervisor/journal"
	"writ/supervisor/takeover"
)

// The tests below each force one event between two steps of a job. TestSimulation finds such events by chance.

// tap is a queue whose messages a test can drop or delay.
type tap struct {
	queue.Queue

	mu        sync.Mutex
	sent      []queue.Task // all jobs, also dropped ones
	withheld  bool
	deaf      bool          // drop messages to nodes
	result    func() bool   // reports whether a result is delivered; nil delivers all
	suspended chan struct{} // closed when a suspended process resumes; nil if it is not suspended
}

// Receive and Generation block while their process is suspended, whatever their context says. The wait of Receive has
// then timed out.
func (q *tap) Receive(ctx context.Context, wait time.Duration, streams ...queue.Stream) ([]queue.Message, error) {
	if q.wasSuspended() {
		return nil, nil
	}
	return q.Queue.Receive(ctx, wait, streams...)
}

func (q *tap) Generation(ctx context.Context) (string, error) {
	q.wasSuspended()
	return q.Queue.Generation(context.WithoutCancel(ctx))
}

// wasSuspended blocks while the process is suspended, and reports whether it was.
func (q *tap) wasSuspended() bool {
	q.mu.Lock()
	suspended := q.suspended
	q.mu.Unlock()
	if suspended != nil {
		<-suspended
	}
	return suspended != nil
}

// suspend suspends the process for d.
func (q *tap) suspend(d time.Duration) {
	q.mu.Lock()
	q.suspended = make(chan struct{})
	q.mu.Unlock()
	time.Sleep(d)
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.suspended)
	q.suspended = nil
}

func (q *tap) Push(ctx context.Context, node writ.NodeID, tasks ...queue.Task) error {
	q.mu.Lock()
	withheld := q.withheld
	q.sent = append(q.sent, tasks...)
	q.mu.Unlock()
	if withheld {
		return nil
	}
	return q.Queue.Push(ctx, node, tasks...)
}

func (q *tap) Send(ctx context.Context, stream queue.Stream, body []byte) error {
	q.mu.Lock()
	result, lost := q.result, q.deaf && stream.Direction == queue.In
	q.mu.Unlock()
	if lost {
		return nil
	}
	if stream.Direction == queue.Out && result != nil && !bytes.Contains(body, []byte("sequence")) && !result() {
		return nil
	}
	return q.Queue.Send(ctx, stream, body)
}

// withhold drops jobs if withhold is set, and delivers them otherwise.
func (q *tap) withhold(withhold bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.withheld = withhold
}

// dropControls drops messages to nodes, except jobs, if deaf is set.
func (q *tap) dropControls(deaf bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deaf = deaf
}

// jobs returns all sent jobs, including dropped ones.
func (q *tap) jobs() []queue.Task {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.sent)
}

func (q *tap) results(through func() bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.result = through
}

// tapped starts a sim whose supervisor uses the queue through a tap.
func tapped(t *testing.T) (*sim, *tap) {
	s := newCluster(t)
	q := &tap{Queue: s.queue}
	s.way = q
	s.start()
	return s, q
}

// Promise: Recovery: A result that the queue lost is sent again unchanged.
// How: The node's journal stores it; a job without a worker is delivered again.
// Also: TestJobMissingInBeatIsDeliveredAgain.
func TestLostResultIsRequestedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSim(t)
		q := &tap{Queue: s.queue}
		n := s.realNode("n1", func(n *realNode) { n.way = q })
		sent := make(chan struct{}, 1)
		q.results(func() bool {
			select {
			case sent <- struct{}{}:
			default:
			}
			s.queue.Flush() // also drops everything else in the queue
			return false
		})
		id := s.submit(oneVolume)
		<-sent
		n.halt()
		s.queue.Flush()
		time.Sleep(time.Second)
		q.results(nil)
		n.start()
		began := time.Now()
		_, calls := s.wantState(id, writ.RunSucceeded)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the run ended %s after the node was back", took)
		}
		if calls[0].Change != writ.ChangeCreated {
			t.Errorf("change = %q, want the first result", calls[0].Change)
		}
		n.wantEffectsOnce(1)
	})
}

func TestJobMissingInBeatIsDeliveredAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSim(t)
		q := &tap{Queue: s.queue}
		n := s.realNode("n1", func(n *realNode) { n.way = q })
		until := time.Now().Add(20 * time.Second)
		q.results(func() bool { return time.Now().After(until) }) // beats pass: the job is done, its result lost
		_, calls := s.wantState(s.submit(oneVolume), writ.RunSucceeded)
		if d := calls[0].Delivery; d < 2 || d > 12 {
			t.Errorf("the job was delivered %d times in 20 s, want 2 to 12", d)
		}
		if calls[0].Change != writ.ChangeCreated {
			t.Errorf("change = %q, want the first result", calls[0].Change)
		}
		n.wantEffectsOnce(1)
	})
}

// Promise: Recovery: Jobs are not redelivered while they wait in a queue.
// How: The supervisor lists the queue; a delivery has its start-by.
func TestQueuedJobsAreDeliveredOnce(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(10*time.Second), func(n *testNode) { n.slots = 500 }) // twice the slots are delivered
		time.Sleep(2 * time.Second)
		p := s.payload("node := import(\"node\")\nfor i := 0; i < 1000; i++ { node.ping() }\n")
		p.MaxCalls = 1000
		run, err := s.Submit(t.Context(), s.signPayload(p))
		if err != nil {
			t.Fatal(err)
		}
		_, calls := s.wantState(run.ID, writ.RunSucceeded)
		for _, c := range calls {
			if c.Delivery != 1 {
				t.Errorf("call %d was delivered %d times, want 1", c.Seq, c.Delivery)
			}
		}
		n.mu.Lock()
		if len(n.jobs) != 1000 {
			t.Errorf("the node received %d jobs for 1000 calls", len(n.jobs))
		}
		n.mu.Unlock()
		s.wantEffects(1000)
	})
}

// Promise: Recovery: A queue that is down for 90 s causes no lost node.
// How: Silence counts only while the supervisor's own mark makes the round trip.
func TestQueueOutageLosesNoNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.realNode("n1")
		id := s.submit(wholeScript)
		s.awaitCall(id, 1, writ.CallRunning)
		s.queue.Cut(true)
		time.Sleep(90 * time.Second)
		s.queue.Cut(false)
		s.wantState(id, writ.RunSucceeded)
		n.wantEffectsOnce(4)
		s.noneLost()
	})
}

// TestJobsBehindLongOnesDoNotAccumulate occupies the slots of a node for hours with jobs of one run.
//
// Promise: Recovery: Jobs that wait behind long jobs are in Redis once and are resent at most every 15 min.
// How: The next delivery withdraws the stale one; it may wait longer while the slots of the node are occupied.
func TestJobsBehindLongOnesDoNotAccumulate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, q := tapped(t)
		n := s.join("n1", slowly(6*time.Hour)) // 4 slots: 8 jobs are delivered, and 2 wait in the journal
		time.Sleep(2 * time.Second)
		p := s.payload("volume := import(\"volume\")\nfor i := 0; i < 10; i++ { volume.create(\"v\" + i, {size_gib: 1}, {timeout: \"20h\"}) }\n")
		p.Deadline = 24 * time.Hour
		run, err := s.Submit(t.Context(), s.signPayload(p))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			time.Sleep(8 * time.Minute)
			var ids []string
			for _, task := range q.jobs() {
				ids = append(ids, task.ID)
			}
			gone, err := s.queue.Missing(t.Context(), n.id, ids...)
			if err != nil {
				t.Fatal(err)
			}
			if held := len(ids) - len(gone); held != 8 {
				t.Errorf("the queue has %d jobs, want 8", held)
			}
		}
		_, calls := s.look(run.ID)
		for _, c := range calls {
			if c.Delivery > 5 { // deliveries that wait for 1, 2, 4 and 8 min, and the next one
				t.Errorf("call %d was delivered %d times in 16 min", c.Seq, c.Delivery)
			}
		}
		if _, err := s.cancel(run.ID); err != nil {
			t.Fatal(err)
		}
		s.wantState(run.ID, writ.RunCancelled)
	})
}

// hourly is a volume driver. A job on "long" takes an hour unless its context ends; the result is sent to ended. Other
// jobs take a minute.
type hourly struct {
	simDriver
	ended chan<- error
}

func (d hourly) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	if r.Resource.Name != "long" {
		time.Sleep(time.Minute)
	} else {
		select {
		case <-ctx.Done():
			d.ended <- context.Cause(ctx)
			return sal.Outcome{}, ctx.Err()
		case <-time.After(time.Hour):
			d.ended <- nil
		}
	}
	change, err := d.host.effect(r, keyOf(r.Key))
	return sal.Outcome{Change: change, Values: answerOf(r)}, err
}

// The script continues after its call failed with the loss of the node.
//
// Promise: Recovery: A lost node that returns stops the abandoned calls within 10 s, even if the script has
// continued.
// How: The supervisor sends the cancel when the node names the job, and again after a loss of Redis or a restart of
// the runner.
func TestReturningNodeStopsAbandonedJobs(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flush bool // the first cancel is lost
	}{{"Told", false}, {"ToldAgain", true}} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, q := tapped(t)
				ended := make(chan error, 1)
				way := s.queue.Attach()
				s.realNode("n1", func(n *realNode) {
					n.way, n.drivers = way, []sal.Driver{hourly{simDriver{newSimHost(1), "volume"}, ended}}
				})
				id := s.submit(`
volume := import("volume")
long := volume.create("long", {size_gib: 1}, {node: "n1", timeout: "2h"})
if long.err != undefined { volume.create("short", {size_gib: 1}, {node: "n1"}) }
`)
				s.awaitCall(id, 1, writ.CallRunning)
				way.Cut(true)
				s.awaitCall(id, 1, writ.CallFailed)
				q.dropControls(tt.flush)
				way.Cut(false)
				if tt.flush {
					time.Sleep(10 * time.Second)
					q.dropControls(false)
					s.queue.Flush()
				}
				select {
				case err := <-ended:
					if writ.CodeOf(err) != writ.CodeRunCancelled {
						t.Errorf("the job ended with %v, want RUN_CANCELLED", err)
					}
				case <-time.After(10 * time.Second):
					t.Error("the node still runs the job 10 s after its return")
				}
				s.wantState(id, writ.RunSucceeded)
			})
		})
	}
}

// noneLost fails the test if a node was ever lost.
func (s *sim) noneLost() {
	s.t.Helper()
	for _, e := range s.events() {
		if e.Node != nil && e.Node.Liveness == writ.LivenessLost {
			s.t.Errorf("node %s was lost", e.Node.Name)
		}
	}
}

// events returns all events of the journal.
func (s *sim) events() []writ.Event {
	s.t.Helper()
	events, err := s.journal.Events(s.t.Context(), 0, 10_000)
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}

// Promise: Recovery: A supervisor or journal that freezes for minutes loses no node and ends no call.
// How: Silence and call time count only while the collector receives; a late check counts as 2 s.
// Also: TestHangingJournalLosesNoNode, TestLateScanIsNoSilence, TestAPausedSupervisorDeclaresNoNodeLost.
func TestSuspendedSupervisorLosesNoNode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, q := tapped(t)
		s.join("n1", slowly(6*time.Minute))
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		for range 2 {
			q.suspend(2 * time.Minute)
			time.Sleep(3 * time.Second)
		}
		_, calls := s.wantState(id, writ.RunSucceeded)
		if calls[0].Delivery != 1 {
			t.Errorf("the job was delivered %d times, want 1", calls[0].Delivery)
		}
		s.noneLost()
		s.wantEffects(1)
	})
}

// A report of the node blocks on the journal, and so does the collector of all messages of nodes.
func TestHangingJournalLosesNoNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.realNode("n1", func(n *realNode) { n.drivers = []sal.Driver{patient{simDriver{newSimHost(1), "volume"}}} })
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		release := s.blockWrites()
		blocked := time.Now()
		time.Sleep(110 * time.Second)
		release()
		_, calls := s.wantState(id, writ.RunSucceeded)
		for _, e := range s.events() {
			if e.Node != nil && e.Node.Liveness != writ.LivenessReady && e.Time.After(blocked) {
				t.Errorf("the node was %s, want ready", e.Node.Liveness)
			}
		}
		if calls[0].Delivery != 1 {
			t.Errorf("the job was delivered %d times, want 1", calls[0].Delivery)
		}
		s.noneLost()
	})
}

// The queue is unavailable for longer than the time limit of the call.
//
// Promise: Recovery: A job that cannot be sent while the queue is down expires only with its run.
// How: Silence and call time count only while the collector receives.
func TestUnsentCallDoesNotExpire(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.realNode("n1")
		time.Sleep(2 * time.Second)
		s.queue.Cut(true)
		id := s.submit("node := import(\"node\")\nnode.ping()\n")
		time.Sleep(5 * time.Minute)
		s.queue.Cut(false)
		back := time.Now()
		s.wantState(id, writ.RunSucceeded)
		if took := time.Since(back); took > 10*time.Second {
			t.Errorf("the run ended %s after the queue returned", took)
		}
		if acted := n.counted("jobs"); acted != 1 {
			t.Errorf("the node acted %g times, want 1", acted)
		}
		s.noneLost()
	})
}

// Promise: Recovery: Nodes ignore late jobs of an earlier supervisor.
// How: Nodes receive the epoch before the first job.
func TestLateJobOfOldSupervisorIsNotExecuted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, q := tapped(t)
		n := s.realNode("n1")
		time.Sleep(2 * time.Second)
		q.withhold(true)
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallQueued)
		time.Sleep(time.Millisecond)
		old := q.jobs()
		s.halt()
		s.start() // the node receives its higher epoch
		time.Sleep(3 * time.Second)
		acted, dropped := n.counted("jobs"), n.counted("dropped")
		if len(old) != 1 {
			t.Fatalf("%d jobs were dropped, want 1", len(old))
		}
		if err := s.queue.Push(t.Context(), n.id(), old...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if more, late := n.counted("jobs")-acted, n.counted("dropped")-dropped; more != 0 || late != 1 {
			t.Errorf("acted %g times on the late job and dropped %g messages, want 0 and 1", more, late)
		}
		q.withhold(false)
		s.wantState(id, writ.RunSucceeded)
		n.wantEffectsOnce(1)
	})
}

// Promise: Recovery: A job that arrives after its cancel is not executed.
// How: Nodes remember cancelled runs.
func TestEarlyCancelPreventsItsJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, q := tapped(t)
		n := s.realNode("n1")
		time.Sleep(2 * time.Second)
		q.withhold(true)
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallQueued)
		time.Sleep(time.Millisecond)
		if _, err := s.cancel(id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the node has received the cancel
		if err := s.queue.Push(t.Context(), n.id(), q.jobs()...); err != nil {
			t.Fatal(err)
		}
		s.wantState(id, writ.RunCancelled)
		n.wantEffectsOnce(0)
	})
}

// stuckDriver is a volume driver. Its first job on "stuck" ignores its context and takes three minutes, or lasts.
type stuckDriver struct {
	simDriver
	lasts time.Duration
	once  sync.Once
}

func (d *stuckDriver) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	if r.Resource.Name == "stuck" {
		d.once.Do(func() { time.Sleep(cmp.Or(d.lasts, 3*time.Minute)) })
	}
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	change, err := d.host.effect(r, keyOf(r.Key))
	return sal.Outcome{Change: change, Values: answerOf(r)}, err
}

// Promise: Recovery: A driver that outlives its run delays only the next job on its resource.
// How: The lock of a resource ends with the driver; waiting jobs use up no attempts.
func TestNextJobWaitsForOverdueDriver(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		const stuckFor = 20 * time.Minute // longer than all attempts of the next call, if the wait consumed attempts
		h := newSimHost(1)
		s.realNode("n1", func(n *realNode) {
			n.drivers = []sal.Driver{&stuckDriver{simDriver: simDriver{h, "volume"}, lasts: stuckFor}}
		})
		const make = "volume := import(\"volume\")\nvolume.create(%q, {size_gib: 1}, {timeout: %q})\n"
		began := time.Now()
		run, _ := s.wantState(s.submit(fmt.Sprintf(make, "stuck", "5s")), writ.RunFailed)
		if run.Failure.Code != writ.CodeDeadlineExceeded || time.Since(began) > 2*time.Minute {
			t.Fatalf("failure %+v after %s", run.Failure, time.Since(began))
		}
		next := s.submit(fmt.Sprintf(make, "stuck", "10m"))
		s.wantState(s.submit(fmt.Sprintf(make, "other", "10m")), writ.RunSucceeded) // the node runs other work meanwhile
		if _, calls := s.look(next); calls[0].State.Ended() {
			t.Errorf("the next job is %s while the driver is still running", calls[0].State)
		}
		s.wantState(next, writ.RunSucceeded)
		if took := time.Since(began); took < stuckFor {
			t.Errorf("the next job ended after %s, before the driver", took)
		}
	})
}

// backup copies the journal on disk. restore replaces the journal with the copy, as `writ restore` does.
func (s *sim) backup() (restore func()) {
	s.t.Helper()
	path := s.place
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("VACUUM INTO $1", path+".backup"); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		s.t.Helper()
		for _, end := range []string{"-wal", "-shm"} {
			_ = os.Remove(path + end)
		}
		if err := os.Rename(path+".backup", path); err != nil {
			s.t.Fatal(err)
		}
		s.marks = &memoryMarks{mark: takeover.Mark{Restored: true}}
	}
}

// Promise: Recovery: A journal restored from a backup repeats no work: nodes answer jobs sent after the backup, and
// the same submission is the same run.
// How: The epoch is at least the clock; uids derive from calls; a node's answer names its delivery.
func TestRestoredJournalRepeatsNoJob(t *testing.T) {
	const script = `
image := import("image")
container := import("container")
run := import("run")
i := image.fetch("i", {url: "https://images.example/i.tar", sha256: "` + "0000000000000000000000000000000000000000000000000000000000000000" + `", format: "oci"})
c := container.create("c", {image: i, memory_mib: 16})
e := container.exec(c, {command: ["work"]})
run.output({code: e.exit_code})
`
	for _, tt := range []struct {
		name  string
		state func(s *sim, id writ.RunID) // the state of the run at the time of the backup
	}{
		{"BeforeTheRun", nil},
		{"WithTheFirstCallOut", func(s *sim, id writ.RunID) { s.awaitCall(id, 1, writ.CallRunning) }},
		{"WithTheLastCallOut", func(s *sim, id writ.RunID) { s.awaitCall(id, 3, writ.CallQueued) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				n := s.realNode("n1")
				time.Sleep(2 * time.Second)
				signed := s.signPayload(s.payload(script))
				var restore func()
				if tt.state == nil {
					restore = s.backup()
				}
				first, err := s.Submit(t.Context(), signed)
				if err != nil {
					t.Fatal(err)
				}
				if tt.state != nil {
					tt.state(s, first.ID)
					restore = s.backup()
				}
				s.wantState(first.ID, writ.RunSucceeded)
				for range 2 { // later supervisors, which are missing in the backup
					s.halt()
					time.Sleep(time.Second)
					s.start()
				}
				epoch := s.Epoch()
				s.halt()
				time.Sleep(time.Second)
				restore()
				s.start()
				if s.Epoch() <= epoch {
					t.Errorf("epoch = %d, want more than %d", s.Epoch(), epoch)
				}
				again, err := s.Submit(t.Context(), signed)
				if err != nil || again.ID != first.ID {
					t.Fatalf("repeated submission = run %s, want %s; %v", again.ID, first.ID, err)
				}
				s.wantState(first.ID, writ.RunSucceeded)
				n.wantEffectsOnce(3)
				err = s.journal.Read(t.Context(), func(tx *journal.Tx) error {
					resources, err := tx.Resources()
					if len(resources) != 2 {
						t.Errorf("the journal has %d resources, want 2", len(resources))
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestRemovedNodeEndsItsRunningCall(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(time.Hour))
		time.Sleep(2 * time.Second)
		id := s.submit("node := import(\"node\")\nnode.ping()\n")
		s.awaitCall(id, 1, writ.CallRunning)
		s.decide(n.id, "remove")
		began := time.Now()
		run, _ := s.wantState(id, writ.RunFailed)
		if took := time.Since(began); took > 3*time.Minute {
			t.Errorf("the run ended after %s: %+v", took, run.Failure)
		}
	})
}
