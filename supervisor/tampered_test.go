package supervisor_test

import (
	"context"
	"crypto/ed25519"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/supervisor/journal"
)

// attack stops the supervisor and writes to its journal as an attacker with the database and this program, but without
// the supervisor's key.
func (s *sim) attack(do func(tx *journal.Tx) error) {
	s.t.Helper()
	s.halt()
	j, err := journal.Open(s.t.Context(), s.place)
	if err == nil {
		err = j.Write(s.t.Context(), do)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.start()
}

// awaitHeld waits for the event that a run is held.
func (s *sim) awaitHeld(id writ.RunID) {
	s.t.Helper()
	for after := int64(0); ; {
		events, err := s.journal.Events(s.t.Context(), after, 100)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range events {
			after = e.Seq
			if e.Run != nil && e.Run.ID == id && strings.HasPrefix(e.Run.Why.String(), "is held: the row") {
				return
			}
		}
	}
}

// wantRefusedOnce fails the test unless exactly records changed records were logged, each once, even after a long wait.
func (s *sim) wantRefusedOnce(records int) {
	s.t.Helper()
	time.Sleep(30 * time.Second)
	if n := s.captured.times("changed by another program"); n != records {
		s.t.Errorf("%d lines about changed records, want %d", n, records)
	}
	if n := s.captured.times("RECORD_FORGED", "advance a run", "is not as the supervisor wrote it"); n > records {
		s.t.Errorf("%d lines about refused records in total", n)
	}
}

const labelled = `
volume := import("volume")
volume.create("v", {size_gib: 1}, {labels: {disk: "ssd"}})
`

func TestForgedNodeGetsNoWork(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		honest := s.join("n1")
		wrong := s.join("n2")
		if _, err := s.label(honest.id, identity.LabelChange{Set: map[string]string{"disk": "ssd"}}); err != nil {
			t.Fatal(err)
		}
		s.attack(func(tx *journal.Tx) error {
			n, err := tx.Node(wrong.id)
			if err != nil {
				return err
			}
			n.Labels = map[string]string{"disk": "ssd"}
			if err := tx.PutNode(n); err != nil {
				return err
			}
			evil := *n
			evil.ID, evil.Name, evil.PublicKey = writ.NodeID(writ.NewUUID()), "evil", newKey(t).Public().(ed25519.PublicKey)
			return tx.PutNode(&evil)
		})
		_, calls := s.wantState(s.submit(labelled), writ.RunSucceeded)
		if calls[0].Node != honest.id {
			t.Errorf("call ran on %s, want n1", calls[0].NodeName)
		}
		if len(wrong.jobs) > 0 {
			t.Errorf("a node with a changed record received %d jobs", len(wrong.jobs))
		}
		s.wantRefusedOnce(2)
	})
}

func TestSwappedSecretReachesNoNode(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		var mu sync.Mutex
		var seen []string
		s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				values, _ := n.openSecrets(job)
				mu.Lock()
				defer mu.Unlock()
				for _, v := range values {
					seen = append(seen, v)
				}
				return succeed(ctx, job)
			}
		})
		s.set("db-password", 1, "correct value")
		s.set("other", 1, canary)
		run, err := s.submitWith(secretScript, "db-password@1")
		if err != nil {
			t.Fatal(err)
		}
		s.wantState(run.ID, writ.RunSucceeded)
		s.attack(func(tx *journal.Tx) error {
			_, err := tx.ExecContext(t.Context(), `UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE name = 'other') WHERE name = 'db-password'`)
			return err
		})
		if _, err := s.submitWith(secretScript, "db-password@1"); writ.CodeOf(err) != writ.CodeRecordForged {
			t.Errorf("submission with the swapped secret: %v, want RECORD_FORGED", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if slices.Contains(seen, canary) {
			t.Error("the node received another secret")
		}
		s.wantRefusedOnce(1)
	})
}

const decides = `
volume := import("volume")
a := volume.create("a", {size_gib: 1})
b := volume.create("b", {size_gib: 1})
if a.path == "evil" {
	volume.create("evil", {size_gib: 1})
}
b.path
`

func TestScriptReadsNoForgedResult(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if job.Name == "b" {
					time.Sleep(time.Minute)
				}
				return succeed(ctx, job)
			}
		})
		id := s.submit(decides)
		s.awaitCall(id, 1, writ.CallSucceeded)
		s.awaitCall(id, 2, writ.CallRunning)
		s.attack(func(tx *journal.Tx) error {
			if _, err := tx.ExecContext(t.Context(), `CREATE TABLE kept AS SELECT place, body FROM calls WHERE seq = 1`); err != nil {
				return err
			}
			calls, err := tx.Calls(id)
			if err != nil {
				return err
			}
			calls[0].Values["path"] = "evil"
			return tx.PutCall(calls[0])
		})
		s.awaitHeld(id)
		time.Sleep(2 * time.Minute)
		s.wantSentAtMost(2)
		s.wantRefusedOnce(1)
		s.tamper(`UPDATE calls SET body = (SELECT body FROM kept WHERE kept.place = calls.place) WHERE seq = 1`)
		s.wantState(id, writ.RunSucceeded) // continues once the record is restored
		s.wantSentAtMost(2)
	})
}

func TestForgedCallIsNotSent(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		id := s.submit(oneVolume) // without a node
		s.awaitCall(id, 1, writ.CallPlanned)
		s.attack(func(tx *journal.Tx) error {
			calls, err := tx.Calls(id)
			if err != nil {
				return err
			}
			calls[0].Args["size_gib"] = int64(1000)
			return tx.PutCall(calls[0])
		})
		s.join("n1")
		s.awaitHeld(id)
		s.wantRefusedOnce(1)
		s.wantEffects(0)
	})
}

func TestForgedRunIsNotExecuted(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(time.Minute))
		id := s.submit(waitsForOne)
		s.awaitCall(id, 1, writ.CallRunning)
		s.attack(func(tx *journal.Tx) error {
			run, err := tx.Run(id)
			if err != nil {
				return err
			}
			run.Allow, run.Destructive, run.Deadline, run.Roster = []string{"volume.delete"}, true, run.Deadline.Add(24*time.Hour), 0
			return tx.PutRun(run)
		})
		time.Sleep(5 * time.Minute)
		s.wantSentAtMost(1)
		s.wantRefusedOnce(1)
		err := s.journal.Read(t.Context(), func(tx *journal.Tx) error {
			_, err := tx.Run(id)
			return err
		})
		if writ.CodeOf(err) != writ.CodeRecordForged {
			t.Errorf("read of the run: %v, want RECORD_FORGED", err)
		}
	})
}

// The old row of a spent token has a valid code. The record of the admitted node shows that the token is spent.
func TestRestoredTokenRowStaysSpent(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		token := s.token()
		s.tamper(`CREATE TABLE kept AS SELECT * FROM tokens`)
		first := &testNode{sim: s, name: "n1", key: newKey(t)}
		if _, err := first.claim(token); err != nil {
			t.Fatal(err)
		}
		for _, restart := range []bool{false, true} {
			s.tamper(`DELETE FROM tokens`)
			s.tamper(`INSERT INTO tokens SELECT * FROM kept`)
			if restart {
				s.halt()
				s.start()
			}
			second := &testNode{sim: s, name: "n2", key: newKey(t)}
			if _, err := second.claim(token); writ.CodeOf(err) != writ.CodeTokenSpent {
				t.Errorf("restarted %v: claim of a second node: %v, want TOKEN_SPENT", restart, err)
			}
		}
	})
}

func TestSwappedStatementAnswerIsRejected(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		statement := s.sign(s.statement("node/"+string(n.id), "cordon"))
		if _, err := s.Decide(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		s.tamper(`UPDATE statements SET answer = (SELECT answer FROM statements WHERE digest <> $1)`, writ.DigestOf(textOf(t, statement)).String())
		if answer, err := s.Decide(t.Context(), statement); writ.CodeOf(err) != writ.CodeRecordForged {
			t.Errorf("repeated statement: %+v, %v, want RECORD_FORGED", answer, err)
		}
	})
}

// textOf returns the signed text.
func textOf(t *testing.T, signed []byte) []byte {
	t.Helper()
	text, _, err := sshsig.Split(signed)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A roster in the journal that was not adopted stops new work with an error, without a loop. The current roster stays
// valid.
func TestUnadoptedRosterInJournalIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		s.join("n1")
		s.tamper(`INSERT INTO rosters (version, signed) VALUES (99, $1)`, s.rosters[0])
		if _, err := s.Submit(t.Context(), s.signPayload(s.payload(oneVolume))); writ.CodeOf(err) != writ.CodeRecordForged {
			t.Errorf("submission: %v, want RECORD_FORGED", err)
		}
		s.tamper(`DELETE FROM rosters WHERE version = 99`)
		s.wantState(s.submit(oneVolume), writ.RunSucceeded)
	})
}

// A daemon also stores the rosters in its data directory. They count as much as the rosters in the journal.
func TestRosterDeletedByDatabaseIsAdoptedAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		s.revoke()
		if _, err := s.AdoptRosters(t.Context(), s.rosters); err != nil {
			t.Fatal(err)
		}
		s.again(func() { s.tamper(`DELETE FROM rosters WHERE version = 2`) }) // the daemon passes its stored rosters
		if _, err := s.Submit(t.Context(), s.signPayload(s.payload(oneVolume))); writ.CodeOf(err) != writ.CodeRoleMissing {
			t.Errorf("submission without the right: %v, want ROLE_MISSING", err)
		}
	})
}
