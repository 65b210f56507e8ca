package supervisor_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/sal/simulated"
)

// execScript runs a program in a container, which is not repeatable.
const execScript = `
image := import("image")
container := import("container")
run := import("run")
i := image.fetch("i", {url: "https://images.example/i.tar", sha256: "` + "0000000000000000000000000000000000000000000000000000000000000000" + `", format: "oci"})
c := container.create(%q, {image: i, memory_mib: 16})
e := container.exec(c, {command: ["work"]})
run.output({code: e.exit_code})
`

// sabotage makes the node's journal reject rows, like a full disk, until repair is called.
func (n *realNode) sabotage(when string) (repair func()) {
	t := n.sim.t
	t.Helper()
	exec := func(text string) {
		t.Helper()
		db, err := sql.Open("sqlite", "file:"+filepath.Join(n.dir, "runner.db")+"?_pragma=busy_timeout(5000)")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TRIGGER full BEFORE INSERT ON jobs WHEN " + when + " BEGIN SELECT RAISE(ABORT, 'disk full'); END")
	return func() { t.Helper(); exec("DROP TRIGGER full") }
}

// executions counts the program executions of each call.
func (n *realNode) executions() map[string]int { return n.effectsOf("container.exec") }

// effectsOf counts the effects of an operation for each call.
func (n *realNode) effectsOf(operation string) map[string]int {
	t := n.sim.t
	t.Helper()
	effects, err := simulated.ReadEffects(filepath.Join(n.dir, "sim"))
	if err != nil {
		t.Fatal(err)
	}
	calls := make(map[string]int)
	for _, e := range effects {
		if e.Operation == operation {
			calls[e.Key[:strings.LastIndex(e.Key, "-")]]++
		}
	}
	return calls
}

// wantExecutions fails the test unless programs of at most one call ran, want times in total.
func (n *realNode) wantExecutions(want int) {
	n.sim.t.Helper()
	got := n.executions()
	total := 0
	for _, times := range got {
		total += times
	}
	if total != want || len(got) > 1 {
		n.sim.t.Errorf("executions = %v, want %d of one call", got, want)
	}
}

func TestAbandonedAttemptDoesNotRunWithNext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, q := tapped(t)
		n := s.realNode("n1")
		time.Sleep(2 * time.Second)
		repair := n.sabotage("NEW.operation = 'container.exec' AND NEW.try = 1")
		id := s.submit(fmt.Sprintf(execScript, "c"))
		_, calls := s.wantState(id, writ.RunSucceeded)
		if calls[2].Attempt != 2 {
			t.Fatalf("succeeded in attempt %d, want 2", calls[2].Attempt)
		}
		repair()
		time.Sleep(2 * time.Second) // until the node can write again
		acted, refused := n.counted("jobs"), n.counted("refusals")
		for _, task := range q.jobs() { // a queue may redeliver any job
			if err := s.queue.Push(t.Context(), n.id(), task); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		if more, late := n.counted("jobs")-acted, n.counted("refusals")-refused; more != 0 || late != 1 {
			t.Errorf("acted on %g late deliveries and refused %g, want 0 and 1", more, late)
		}
		n.wantExecutions(1)
	})
}

func TestResumeRepeatsNoUncertainCall(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.realNode("n1")
		id := s.submit(fmt.Sprintf(execScript, "slow-20-c"))
		s.awaitCall(id, 3, writ.CallRunning)
		n.halt()
		run, _ := s.wantState(id, writ.RunFailed)
		if run.Failure.Code != writ.CodeNodeLost {
			t.Fatalf("failure = %+v", run.Failure)
		}
		n.start()
		run, _ = s.mustResume(id, writ.RunFailed) // the supervisor does not have the report of the node yet
		if run.Failure.Code != writ.CodeOutcomeUnknown {
			t.Fatalf("failure = %+v, want %s", run.Failure, writ.CodeOutcomeUnknown)
		}
		n.wantExecutions(0)
		s.mustResume(id, writ.RunSucceeded) // after the report
		n.wantExecutions(1)
	})
}

func TestReturningNodeRepeatsNoOldJob(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.realNode("n1")
		p := s.payload(strings.Replace(fmt.Sprintf(execScript, "slow-20-c"), `["work"]}`, `["work"]}, {on_loss: "wait"}`, 1))
		p.Deadline = 7 * 24 * time.Hour
		accepted, err := s.Submit(t.Context(), s.signPayload(p))
		if err != nil {
			t.Fatal(err)
		}
		s.awaitCall(accepted.ID, 3, writ.CallRunning)
		n.halt()
		s.halt() // avoids simulating two days of scans
		time.Sleep(50 * time.Hour)
		s.start()
		n.start()
		run, _ := s.wantState(accepted.ID, writ.RunFailed)
		if run.Failure.Code != writ.CodeOutcomeUnknown {
			t.Errorf("failure = %+v, want %s", run.Failure, writ.CodeOutcomeUnknown)
		}
		n.wantExecutions(0)
	})
}
