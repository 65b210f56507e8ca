package supervisor_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/runner/queue"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/takeover"
)

// memoryMarks stores the mark in memory, where a test can read and change it.
type memoryMarks struct {
	mark  takeover.Mark
	heard int
}

func (m *memoryMarks) Read() (takeover.Mark, error) { return m.mark, nil }
func (m *memoryMarks) Keep(h journal.Head) error    { m.mark.Head = h; return nil }
func (m *memoryMarks) Heard() error                 { m.mark.Restored = false; m.heard++; return nil }

// Promise: Recovery: After a restore no other node repeats work: an earlier run waits until every node has reported
// its part of the run.
// How: `writ restore` marks the journal, or the journal is behind the mark beside the supervisor's key, or most nodes
// obey a newer epoch; nodes that joined later or were removed are not awaited.
// Also: TestTheMarkOfARestoredJournalIsReadOnce, TestARestoredDirectoryWithoutAStoreIsMarked,
// TestRestoredRunReturnsToItsNode, TestCallUnknownToBackupWaitsForNode,
// TestCallOnSilentNodeWaitsForIt, TestNextSupervisorReconcilesAgain, TestNodeReportsItsPartOfRunOnce,
// TestRestoredJournalIsMarked.
func TestStoredMarkStartsReconciliation(t *testing.T) {
	for name, tt := range map[string]struct {
		mark func(h journal.Head) takeover.Mark
		want bool
	}{
		"as it is": {func(h journal.Head) takeover.Mark { return takeover.Mark{Head: h} }, false},
		"behind":   {func(h journal.Head) takeover.Mark { return takeover.Mark{} }, false},
		"a later epoch": {func(h journal.Head) takeover.Mark {
			h.Epoch++
			return takeover.Mark{Head: h}
		}, true},
		"a later event": {func(h journal.Head) takeover.Mark {
			h.Seq++
			return takeover.Mark{Head: h}
		}, true},
		"declared by an operator": {func(h journal.Head) takeover.Mark { return takeover.Mark{Head: h, Restored: true} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				head, err := s.journal.Head(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				s.halt()
				head.Epoch = s.Epoch()
				marks := &memoryMarks{mark: tt.mark(head)}
				declared := marks.mark.Restored
				s.marks = marks
				s.start()
				if got := !s.journal.ReconcilesUntil().IsZero(); got != tt.want {
					t.Errorf("reconciling = %v, want %v", got, tt.want)
				}
				if declared && (marks.heard != 1 || marks.mark.Restored) {
					t.Errorf("the mark of the operator was consumed %d times, want 1", marks.heard)
				}
				time.Sleep(time.Minute)
				if now, err := s.journal.Head(t.Context()); err != nil || marks.mark.Head != now {
					t.Errorf("mark = %+v, journal = %+v, %v", marks.mark.Head, now, err)
				}
			})
		})
	}
}

// A single node may lie about obeying another supervisor. It cannot make the runs of other nodes wait.
func TestOnlyMostNodesStartAReconciliation(t *testing.T) {
	for liars, want := range map[int]bool{0: false, 1: false, 2: true, 3: true} {
		inSim(t, func(t *testing.T, s *sim) {
			for _, name := range []string{"n1", "n2", "n3"} {
				s.join(name)
			}
			time.Sleep(2 * time.Second)
			before := s.journal.ID()
			for _, n := range s.nodes[:liars] {
				n.mu.Lock()
				n.sequence++
				b := writ.Beat{Node: n.id, Incarnation: 1, Sequence: n.sequence, Epoch: s.Epoch() - 1, Clock: time.Now().UnixMilli()}
				n.mu.Unlock()
				n.send(envelope.Beat, b)
			}
			time.Sleep(3 * time.Second)
			if got := !s.journal.ReconcilesUntil().IsZero(); got != want || want != (s.journal.ID() != before) {
				t.Errorf("%d of 3 nodes: reconciling = %v", liars, got)
			}
		})
	}
}

// After `writ restore`, nodes and coordinators have newer data than the journal. No message asks the operator to
// declare the restore again.
func TestKnownRestoreIsNotAskedForAgain(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		time.Sleep(5 * time.Second)
		s.halt()
		time.Sleep(time.Minute)
		later := time.Now()
		time.Sleep(time.Minute)
		s.marks = &memoryMarks{mark: takeover.Mark{Restored: true}}
		s.start()
		before := s.journal.ID()
		time.Sleep(3 * time.Second) // the supervisor receives a beat
		n := s.nodes[0]
		n.mu.Lock()
		n.sequence++
		b := writ.Beat{Node: n.id, Incarnation: 1, Sequence: n.sequence, Epoch: later.UnixMilli(), Clock: time.Now().UnixMilli()}
		n.mu.Unlock()
		n.send(envelope.Beat, b)
		time.Sleep(3 * time.Second)
		if s.journal.ID() != before {
			t.Error("the journal began another generation")
		}
		err := s.journal.Feed("coordinator").Agree(t.Context(), before, 1<<40, later)
		if err == nil || strings.Contains(err.Error(), "restore") {
			t.Errorf("coordinator with newer events: %v", err)
		}
		if err := s.journal.Feed("liar").Agree(t.Context(), before, 1<<40, time.Now().Add(time.Second)); err == nil || !strings.Contains(err.Error(), "writ restore --mark") {
			t.Errorf("coordinator with events from after the restore: %v", err)
		}
	})
}

// sink is the event store of a coordinator that claims future events.
type sink struct{}

func (sink) LastEvent(context.Context, writ.DatacenterID, string) (int64, time.Time, error) {
	return 1 << 60, time.Time{}, nil
}
func (sink) StoreEvents(context.Context, writ.DatacenterID, []writ.Event) error { return nil }

// A coordinator acknowledges future events over a real link. If that started a reconciliation, a dead node would delay
// every open run.
//
// Promise: Recovery: A coordinator that acknowledges future events delays no run and causes at most three new journal
// generations per hour, for itself only.
// How: Only the datacenter's own records and an operator start a reconciliation.
// Also: TestOnlyMostNodesStartAReconciliation, TestNewGenerationReportsNodeStates,
// TestNoCoordinatorStartsAReconciliation, TestLyingCoordinatorGetsFewGenerations,
// TestJournalKnowsItsEpochs.
func TestCoordinatorCannotDelayRuns(t *testing.T) {
	s := newSim(t)
	log := slog.New(slog.DiscardHandler)
	hostile := &link.Listener{
		Authenticate: func(context.Context, link.Hello, []byte) error { return nil },
		Welcome:      func(context.Context, link.Hello) (link.Welcome, error) { return link.Welcome{}, nil },
		Events:       sink{}, Log: log,
	}
	server := httptest.NewServer(hostile)
	defer server.Close()
	defer hostile.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	feed := s.journal.Feed(server.URL)
	dialer := &link.Dialer{
		URL: server.URL,
		Hello: func() link.Hello {
			return link.Hello{Datacenter: theDatacenter, Journal: feed.ID(), Epoch: s.Epoch()}
		},
		Sign: func(link.Hello, []byte, string) ([]byte, error) { return []byte("any"), nil }, Events: feed, Log: log,
	}
	go func() { ended <- dialer.Run(ctx) }()
	for feed.ID() == s.journal.ID() { // until the claim was processed
		time.Sleep(time.Millisecond)
	}
	if until := s.journal.ReconcilesUntil(); !until.IsZero() {
		t.Errorf("the journal reconciles until %s, want no reconciliation", until)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A new generation starts with the nodes as they joined, and then reports their current state.
func TestNewGenerationReportsNodeStates(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		time.Sleep(5 * time.Second)
		if err := s.journal.Feed("liar").Agree(t.Context(), s.journal.ID(), 1<<60, time.Time{}); err == nil {
			t.Fatal("the journal accepted the false claim")
		}
		time.Sleep(5 * time.Second)
		events, err := s.journal.Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		var last *writ.Node
		for _, e := range events {
			if e.Node != nil && e.Node.ID == n.id {
				last = e.Node
			}
		}
		if last == nil || last.Liveness != writ.LivenessReady || last.Capacity.CPUs != 16 {
			t.Errorf("node in the last event = %+v", last)
		}
	})
}

// An attacker who controls Redis records messages of a node, and replays them to a later supervisor when the node is
// dead.
//
// Promise: Recovery: Redis cannot replay messages that a node sent to an earlier supervisor or process.
// How: A beat counts only with the supervisor's epoch, which is new to every node; a report also needs the newest
// process of the node.
// Also: TestOutdatedReportIsIgnored.
func TestOldBeatsKeepNoDeadNodeAlive(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		time.Sleep(5 * time.Second)
		n.setSilent(true)
		n.mu.Lock()
		epoch := n.epoch
		n.mu.Unlock()
		s.halt()
		time.Sleep(time.Second)
		s.start()
		out := queue.Stream{Node: n.id, Direction: queue.Out}
		for i := range 30 {
			old, err := envelope.Sign(envelope.Beat, n.key, writ.Beat{Node: n.id, Incarnation: 9, Sequence: int64(1000 + i), Epoch: epoch, Clock: time.Now().UnixMilli(), Health: writ.Health{Slots: 4}})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.queue.Send(t.Context(), out, old); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if got := s.liveness(n.id); got == writ.LivenessReady {
				t.Fatal("a replayed beat made the dead node ready")
			}
		}
		time.Sleep(time.Minute)
		if got := s.liveness(n.id); got != writ.LivenessLost {
			t.Errorf("node is %s, want lost", got)
		}
	})
}

// Each outdated beat could cause a signed answer, made by the collector of the messages of all nodes.
func TestOldBeatsAreAnsweredSeldom(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		time.Sleep(5 * time.Second)
		n.setSilent(true)
		s.halt()
		s.start()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		before := n.heardControls()
		var old []any
		for i := range envelope.MaxRecords {
			old = append(old, writ.Beat{Node: n.id, Incarnation: 9, Sequence: int64(1000 + i), Epoch: 1, Clock: time.Now().UnixMilli(), Health: writ.Health{Slots: 4}})
		}
		signed, err := envelope.Sign(envelope.Beat, n.key, old...)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if err := s.queue.Send(t.Context(), queue.Stream{Node: n.id, Direction: queue.Out}, signed); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if got := n.heardControls() - before; got < 10 || got > 110 {
			t.Errorf("%d old beats within 10 seconds got %d answers, want 10 to 110", 100*len(old), got)
		}
		n.setSilent(false)
		time.Sleep(5 * time.Second)
		if got := s.liveness(n.id); got != writ.LivenessReady {
			t.Errorf("node is %s after a valid beat, want ready", got)
		}
	})
}

// liveness returns the state of a node in its last event, or silent without an event.
func (s *sim) liveness(id writ.NodeID) (l writ.Liveness) {
	s.t.Helper()
	events, err := s.journal.Events(s.t.Context(), 0, 10_000)
	if err != nil {
		s.t.Fatal(err)
	}
	l = writ.LivenessSilent
	for _, e := range events {
		if e.Node != nil && e.Node.ID == id {
			l = e.Node.Liveness
		}
	}
	return l
}
