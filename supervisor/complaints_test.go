package supervisor_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/runner/queue"
	"writ/supervisor/nodes"
)

// shownNode returns a node as its last event shows it.
func (s *sim) shownNode(id writ.NodeID) (last writ.Node) {
	s.t.Helper()
	events, err := s.journal.Events(s.t.Context(), 0, 100_000)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		if e.Node != nil && e.Node.ID == id {
			last = *e.Node
		}
	}
	return last
}

// Promise: Nodes and Redis: 100,000 bad messages of a node produce fewer than 100 log lines.
// How: The supervisor logs each kind of fault once per node and then counts.
func TestBadMessagesAreLoggedOnce(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		before := strings.Count(s.logs.String(), "\n")
		out := queue.Stream{Node: n.id, Direction: queue.Out}
		const bad = 100_000
		for range bad / 1000 {
			for range 1000 {
				if err := s.queue.Send(t.Context(), out, []byte("sequence round nonsense")); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		time.Sleep(20 * time.Minute)
		lines := strings.Count(s.logs.String(), "\n") - before
		if lines == 0 || lines >= 100 {
			t.Errorf("%d bad messages produced %d lines, want 1 to 99", bad, lines)
		}
		if !strings.Contains(s.logs.String(), "times=") {
			t.Error("the log has no count of the bad messages")
		}
		s.wantState(s.submit(oneVolume), writ.RunSucceeded)
	})
}

func TestQueueFillingSuspendsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := &memoryAccounts{}
		s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), keeper)
		bad, good := s.join("n1"), s.join("n2")
		time.Sleep(2 * time.Second)
		off := func() bool { return keeper.password(bad.id) == "" }
		shownNode := func() writ.Node { return s.shownNode(bad.id) }
		for _, want := range []time.Duration{30 * time.Second, time.Minute} {
			keeper.addFinding(queue.Finding{Node: bad.id, Offence: queue.OverBudget, Count: 50, Bytes: 800 << 20})
			time.Sleep(3500 * time.Millisecond)
			if !off() || keeper.password(good.id) == "" {
				t.Errorf("account of the bad node removed: %v; password of the good node: %q", off(), keeper.password(good.id))
			}
			if fault := shownNode().Fault; !strings.HasPrefix(fault, string(writ.CodeQueueBudget)) || !strings.Contains(fault, "800 MiB") {
				t.Errorf("fault of the bad node = %q", fault)
			}
			if _, _, err := s.account(bad); writ.CodeOf(err) != writ.CodeQueueBudget {
				t.Errorf("account request of the bad node: %v, want QUEUE_BUDGET", err)
			}
			if _, _, err := s.account(good); err != nil {
				t.Errorf("account request of the good node: %v", err)
			}
			time.Sleep(want - 5*time.Second)
			if !off() {
				t.Errorf("the account is back before %s", want)
			}
			time.Sleep(5 * time.Second)
			if off() || shownNode().Fault != "" {
				t.Errorf("the account is not back after %s; fault = %q", want, shownNode().Fault)
			}
		}
		if len(keeper.cleared) != 2 || keeper.cleared[0] != bad.id {
			t.Errorf("cleared %v, want the bad node twice", keeper.cleared)
		}
		if n := strings.Count(s.logs.String(), "is blocked from the queue"); n != 2 {
			t.Errorf("logged %d times, want 2", n)
		}
	})
}

func TestConnectionHoardingSuspendsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := &memoryAccounts{}
		s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), keeper)
		bad, good := s.join("n1"), s.join("n2")
		time.Sleep(2 * time.Second)
		keeper.addFinding(queue.Finding{Node: bad.id, Offence: queue.TooMany, Count: 500})
		time.Sleep(3500 * time.Millisecond)
		if keeper.password(bad.id) != "" || keeper.password(good.id) == "" {
			t.Errorf("password of the bad node = %q, of the good node = %q", keeper.password(bad.id), keeper.password(good.id))
		}
		if fault := s.shownNode(bad.id).Fault; !strings.HasPrefix(fault, string(writ.CodeQueueBudget)) || !strings.Contains(fault, "500 connections") {
			t.Errorf("fault of the bad node = %q", fault)
		}
	})
}

// A node can make a survey exceed its timeout. The findings before the timeout count.
func TestUnfinishedScanKeepsItsFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := &memoryAccounts{}
		s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), keeper)
		n := s.join("n1")
		time.Sleep(2 * time.Second)
		keeper.mu.Lock()
		keeper.failed = writ.Errorf(writ.CodeQueueUnavailable, "i/o timeout")
		keeper.mu.Unlock()
		keeper.addFinding(queue.Finding{Node: n.id, Offence: queue.OverBudget, Count: 50, Bytes: 80 << 20})
		time.Sleep(2 * time.Second)
		if keeper.password(n.id) != "" || len(keeper.cleared) != 1 {
			t.Errorf("password %q, cleared %v; want no password, one node cleared", keeper.password(n.id), keeper.cleared)
		}
	})
}

// One survey reports a node several times if it has many times its budget. The next survey reports messages that were
// in transit when the account was removed.
func TestRemainsOfABlockedNodeDoNotExtendItsBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := &memoryAccounts{}
		s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), keeper)
		n := s.join("n1")
		time.Sleep(2 * time.Second)
		for range 3 {
			for range 3 {
				keeper.addFinding(queue.Finding{Node: n.id, Offence: queue.OverBudget, Count: 50, Bytes: 80 << 20})
			}
			time.Sleep(2 * time.Second)
		}
		if keeper.password(n.id) != "" {
			t.Error("the blocked node has an account")
		}
		time.Sleep(suspendedFirst)
		if keeper.password(n.id) == "" {
			t.Errorf("the account is not back after %s", suspendedFirst)
		}
		if len(keeper.cleared) != 9 {
			t.Errorf("the node was cleared %d times, want 9", len(keeper.cleared))
		}
	})
}

// suspendedFirst is the duration of a node's first suspension.
const suspendedFirst = 30 * time.Second

func TestBacklogAfterOutageBlocksNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := &memoryAccounts{}
		s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), keeper)
		n := s.join("n1")
		s.halt()
		keeper.addFinding(queue.Finding{Node: n.id, Offence: queue.OverBudget, Bytes: 100 << 20})
		s.start()
		time.Sleep(2 * time.Second)
		if keeper.password(n.id) == "" || len(keeper.cleared) != 1 {
			t.Errorf("password %q, cleared %v; want a password, one node cleared", keeper.password(n.id), keeper.cleared)
		}
	})
}

// Results of unknown runs and needless beats and reports cost the datacenter work without any use. A node is blocked if
// it sends more of them than it could have accumulated while its supervisor was away or was restored. Another node may
// send exactly that number.
//
// Promise: Load and attackers: A node that sends too much is denied the queue: per minute 20,000 results of unknown
// jobs, or 15,000 excess beats or 1,000 excess reports.
// How: Each node has a count; such results cost one journal read per hundred runs and no step.
// Also: TestUnknownRunsGetNoStep.
func TestUselessMessagesBlockNode(t *testing.T) {
	for name, test := range map[string]struct {
		kind        envelope.Kind
		record      func(n *testNode, number int) any
		most, heard int // maximum of excess messages, and number of useful ones before them
	}{
		"results of unknown runs": {envelope.Result, func(n *testNode, number int) any {
			return writ.Result{JobKey: writ.JobKey{Run: writ.RunIDOf(writ.DigestOf(fmt.Appendf(nil, "%s %d", n.id, number))), Seq: 1, Attempt: 1}, Node: n.id}
		}, 20_000, 0},
		"beats": {envelope.Beat, func(n *testNode, number int) any {
			return writ.Beat{Node: n.id, Sequence: int64(number), Epoch: 1 << 62}
		}, 15_000, 100},
		"beats of an earlier epoch": {envelope.Beat, func(n *testNode, number int) any {
			return writ.Beat{Node: n.id, Sequence: int64(number), Epoch: 1}
		}, 15_000, 100},
		"beats of another node": {envelope.Beat, func(_ *testNode, number int) any {
			return writ.Beat{Node: "another", Sequence: int64(number), Epoch: 1 << 62}
		}, 15_000, 0},
		"reports of another node": {envelope.Report, func(_ *testNode, number int) any {
			return writ.Report{Node: "another", Round: int64(number), Epoch: 1 << 62}
		}, 1000, 0},
		"reports": {envelope.Report, func(n *testNode, number int) any {
			return writ.Report{Node: n.id, Round: int64(number), Epoch: 1 << 62}
		}, 1000, 410},
		"reports of its machine": {envelope.Host, func(n *testNode, number int) any {
			return nodes.HostReport{Node: n.id, Count: int64(number)}
		}, 1000, 10},
		"reports of loads": {envelope.Load, func(n *testNode, number int) any {
			return nodes.LoadReport{Node: n.id, Count: int64(number)}
		}, 1000, 10},
		"reports of loads of another node": {envelope.Load, func(_ *testNode, number int) any {
			return nodes.LoadReport{Node: "another", Count: int64(number)}
		}, 1000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keeper := &memoryAccounts{}
				s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), keeper)
				bad, good := s.join("n1"), s.join("n2")
				time.Sleep(2 * time.Second)
				send := func(n *testNode, records int) {
					for i := 0; i < records; i += envelope.MaxRecords {
						var all []any
						for len(all) < min(envelope.MaxRecords, records-i) {
							all = append(all, test.record(n, i+len(all)))
						}
						signed, err := envelope.Sign(test.kind, n.key, all...)
						if err != nil {
							t.Fatal(err)
						}
						if err := s.queue.Send(t.Context(), queue.Stream{Node: n.id, Direction: queue.Out}, signed); err != nil {
							t.Fatal(err)
						}
						time.Sleep(time.Millisecond)
					}
				}
				send(bad, test.most+test.heard+1)
				send(good, test.most)
				time.Sleep(5 * time.Second)
				if keeper.password(bad.id) != "" || keeper.password(good.id) == "" {
					t.Errorf("password of the bad node = %q, of the good node = %q", keeper.password(bad.id), keeper.password(good.id))
				}
				if !strings.HasPrefix(s.shownNode(bad.id).Fault, string(writ.CodeQueueBudget)) {
					t.Errorf("fault of the bad node = %q", s.shownNode(bad.id).Fault)
				}
			})
		})
	}
}
