package supervisor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/scripts"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// lying makes a node send results that change has modified.
func lying(change func(r *writ.Result)) func(n *testNode) {
	return func(n *testNode) {
		n.act = func(ctx context.Context, job writ.Job) writ.Result {
			r := succeed(ctx, job)
			change(&r)
			return r
		}
	}
}

const oneVolume = `
volume := import("volume")
volume.create("v", {size_gib: 1}, {retries: 0})
`

func TestDishonestResultsFailTheirCall(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *writ.Result)
		want   writ.Code
	}{
		{"UnknownField", func(r *writ.Result) { r.Values["secret"] = "x" }, writ.CodeInternal},
		{"WrongType", func(r *writ.Result) { r.Values["size_gib"] = "much" }, writ.CodeInternal},
		{"FieldMissing", func(r *writ.Result) { delete(r.Values, "path") }, writ.CodeInternal},
		{"NotAValue", func(r *writ.Result) { r.Values["path"] = []byte("bytes") }, writ.CodeInternal},
		{"TooBig", func(r *writ.Result) { r.Values["path"] = strings.Repeat("x", scripts.MaxResult) }, writ.CodeScriptLimit},
		{"UnknownChange", func(r *writ.Result) { r.Change = "exploded" }, writ.CodeInternal},
		{"UnknownCode", func(r *writ.Result) { r.Error = &writ.Error{Code: "MADE_UP", Message: "x"} }, writ.CodeInternal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", lying(tt.change))
				run, _ := s.wantState(s.submit(oneVolume), writ.RunFailed)
				if run.Failure.Code != tt.want {
					t.Errorf("failure = %+v, want %s", run.Failure, tt.want)
				}
			})
		})
	}
}

func TestResultsOfRunAreBounded(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", lying(func(r *writ.Result) { r.Values["path"] = strings.Repeat("x", scripts.MaxResult-200) }))
		id := s.submit(`
volume := import("volume")
for i := 0; i < 110; i++ { volume.create("v" + i, {size_gib: 1}).err }
`)
		_, calls := s.wantState(id, writ.RunSucceeded)
		kept, refused := 0, 0
		for _, c := range calls {
			if path, ok := c.Values["path"].(string); ok {
				kept += len(path)
			} else if c.Error.Code == writ.CodeScriptLimit {
				refused++
			}
		}
		if kept > scripts.MaxJournal || refused == 0 {
			t.Errorf("stored %d bytes of results, refused %d results", kept, refused)
		}
	})
}

func TestNodeCannotCauseOversizedEvents(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		huge := strings.Repeat("x", link.MaxFrame)
		s.join("n1", func(n *testNode) {
			n.fault = huge
			n.slots = 1 << 62
			n.capacity = writ.Capacity{CPUs: 1 << 62, MemoryMiB: -1}
		})
		s.join("n2", lying(func(r *writ.Result) {
			r.Driver = huge
			r.Error = &writ.Error{Code: writ.CodeDriverFailed, Message: huge, Hint: huge}
		}))
		s.wantState(s.submit(oneVolume), writ.RunFailed)
		events, err := s.journal.Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if body, _ := json.Marshal(e); len(body) > link.MaxFrame/2 {
				t.Errorf("event %d of topic %s has %d bytes", e.Seq, e.Topic(), len(body))
			}
		}
	})
}

func TestNodeReportsOnlyItsOwnJobs(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(20*time.Second), func(n *testNode) { n.slots = 1 })
		liar := s.join("n2")
		id := s.submit(`
volume := import("volume")
volume.create("a", {size_gib: 1}, {node: "n1"})
volume.create("b", {size_gib: 1}, {node: "n1"})
`)
		s.awaitCall(id, 1, writ.CallRunning)
		liar.mu.Lock()
		liar.claims = []writ.JobKey{{Run: id, Seq: 2, Attempt: 1}}
		liar.mu.Unlock()
		time.Sleep(5 * time.Second)
		events, err := s.journal.Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Call != nil && e.Call.Seq == 2 && e.Call.State == writ.CallRunning {
				t.Error("a node marked a job of another node as running")
			}
		}
		s.wantState(id, writ.RunSucceeded)
	})
}

// A node sends the result of a resize after the run was cancelled and the volume was deleted.
func TestLateResultRevivesNoResource(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		var late []writ.Result
		n := s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if job.Operation == "volume.resize" {
					<-n.stopped
					time.Sleep(time.Minute)
				}
				return succeed(ctx, job)
			}
		})
		s.wantState(s.submit(oneVolume), writ.RunSucceeded)
		resize := s.submit("volume := import(\"volume\")\nvolume.resize(\"v\", {size_gib: 2})\n")
		s.awaitCall(resize, 1, writ.CallRunning)
		if _, err := s.Decide(t.Context(), s.sign(s.statement("run/"+string(resize), "cancel"))); err != nil {
			t.Fatal(err)
		}
		s.wantState(resize, writ.RunCancelled)
		s.wantState(s.submit("volume := import(\"volume\")\nvolume.delete(\"v\")\n"), writ.RunSucceeded)
		time.Sleep(2 * time.Minute) // the result of the resize arrives
		n.mu.Lock()
		for _, r := range n.done {
			late = append(late, *r)
		}
		n.mu.Unlock()
		for _, r := range late { // send every result again
			n.send(envelope.Result, r)
		}
		time.Sleep(5 * time.Second)
		s.wantResources()
	})
}

func TestStrangersCannotFillTheJournalWithNodes(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		for i := range 150 {
			if w, err := (&testNode{sim: s, name: fmt.Sprintf("stranger-%d", i), key: newKey(t)}).claim(identity.Token{}); err != nil || w.Admission != writ.AdmissionPending {
				t.Fatalf("stranger %d got %+v, %v", i, w, err)
			}
		}
		s.join("n1") // a node with a token still joins
		err := s.journal.Read(t.Context(), func(tx *journal.Tx) error {
			stored, err := tx.Nodes()
			if len(stored) != 1 {
				t.Errorf("the journal has %d nodes", len(stored))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// wantResources fails the test unless the journal has exactly the resources want.
func (s *sim) wantResources(want ...string) {
	s.t.Helper()
	var got []string
	err := s.journal.Read(s.t.Context(), func(tx *journal.Tx) error {
		all, err := tx.Resources()
		for _, r := range all {
			got = append(got, r.String())
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		s.t.Errorf("resources = %q, want %q", got, want)
	}
}
