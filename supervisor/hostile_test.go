package supervisor_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/supervisor/journal"
)

// said is what was logged.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// also returns a writer that keeps what it passes on; w itself if nothing is kept.
func (s *said) also(w io.Writer) io.Writer {
	if s == nil {
		return w
	}
	return io.MultiWriter(w, s)
}

func (s *said) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

// times counts the lines with one of these words.
func (s *said) times(words ...string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.text.String()) {
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

// onBoth runs a test in virtual time with a journal in a file, and with one on PostgreSQL. In both the test writes what it likes.
func onBoth(t *testing.T, test func(t *testing.T, s *sim)) {
	t.Helper()
	in := func(place func(s *sim) string) func(t *testing.T) {
		return func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := found(t)
				s.place, s.said = place(s), new(said)
				s.start()
				test(t, s)
			})
		}
	}
	t.Run("file", in(func(s *sim) string { return s.place }))
	address := server.Store(t) // outside of the bubble: time goes on there
	t.Run("PostgreSQL", in(func(*sim) string { return address }))
}

// tamper changes the database as somebody who has it can.
func (s *sim) tamper(query string, args ...any) {
	s.t.Helper()
	err := s.journal.Write(s.t.Context(), func(tx *journal.Tx) error {
		_, err := tx.ExecContext(s.t.Context(), query, args...)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// again starts the supervisor on a journal that was changed while it did not run, with nothing in memory.
func (s *sim) again(change func()) {
	s.t.Helper()
	change()
	s.halt()
	s.start()
}

// wantForged fails the test unless the run has failed as one whose record was changed, was logged once, and had no more sent than before.
func (s *sim) wantForged(id writ.RunID) {
	s.t.Helper()
	run, _ := s.wantState(id, writ.RunFailed)
	if run.Failure.Code != writ.CodeRecordForged || run.Failure.Hint == "" {
		s.t.Errorf("the run failed with %+v", run.Failure)
	}
	if summaries, _, err := envelope.Open[writ.Summary](envelope.Summary, run.Summary, envelope.Only(s.key.Public().(ed25519.PublicKey))); err != nil || len(summaries) != 1 || summaries[0].State != writ.RunFailed || summaries[0].Output != nil {
		s.t.Errorf("what is signed: %+v, %v", summaries, err)
	}
	if code, said := s.said.times("RECORD_FORGED"), s.said.times("no longer has its accepted"); code != 1 || said != 1 {
		s.t.Errorf("it is logged %d times, and with its code %d times", said, code)
	}
	s.wantSentAtMost(1)
}

// wantSentAtMost fails the test if a node got a job of a later call.
func (s *sim) wantSentAtMost(seq int) {
	s.t.Helper()
	for _, n := range s.nodes {
		n.mu.Lock()
		for _, job := range n.jobs {
			if job.Seq > seq {
				s.t.Errorf("%s got the job of call %d", n.name, job.Seq)
			}
		}
		n.mu.Unlock()
	}
}

const waitsForOne = `
volume := import("volume")
run := import("run")
a := volume.create("a", {size_gib: 1})
a.path
volume.create("b", {size_gib: 1})
run.output({a: "as it was signed"})
`

// Promise: Failures: A hostile database cannot make a supervisor evaluate, sign or hand out an unsigned script, or
// alter the life of a run.
// How: The supervisor compares stored data with the run's digest and signed header, verifies it against the roster of
// that time, and checks rights before it sends.
// Also: TestMissingSubmissionEndsItsRun, TestRevocationReachesHiddenRun,
// TestDatabaseCannotExpireRun.
func TestSwappedScriptIsNotUsed(t *testing.T) {
	for name, swap := range map[string]func(s *sim, p *identity.Payload, signed []byte) []byte{
		"another text under the old signature": func(s *sim, p *identity.Payload, signed []byte) []byte {
			return bytes.Replace(signed, []byte("as it was signed"), []byte("as I like it bet"), 1)
		},
		"another text, signed by a stranger": func(s *sim, p *identity.Payload, _ []byte) []byte {
			p.Script.Text = []byte("run := import(\"run\")\nrun.output(1)\n")
			return s.signPayloadBy(sshsig.NewSigner(newKey(s.t)), p)
		},
		"another text of the same person": func(s *sim, p *identity.Payload, _ []byte) []byte {
			p.Nonce = identity.NewNonce()
			return s.signPayload(p)
		},
		"the same text, signed by a stranger": func(s *sim, p *identity.Payload, _ []byte) []byte {
			return s.signPayloadBy(sshsig.NewSigner(newKey(s.t)), p)
		},
		"no signature":  func(_ *sim, p *identity.Payload, _ []byte) []byte { text, _ := p.Text(); return text },
		"half of it":    func(_ *sim, _ *identity.Payload, signed []byte) []byte { return signed[:len(signed)/2] },
		"nothing in it": func(*sim, *identity.Payload, []byte) []byte { return []byte{} },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *sim) {
				s.join("n1", slowly(2*time.Minute))
				p := s.payload(waitsForOne)
				signed := s.signPayload(p)
				run, err := s.Submit(t.Context(), signed)
				if err != nil {
					t.Fatal(err)
				}
				s.awaitCall(run.ID, 1, writ.CallRunning)
				s.again(func() {
					s.tamper(`UPDATE payloads SET signed = $2 WHERE digest = $1`, run.Payload.String(), swap(s, p, signed))
				})
				if text, err := s.Payload(t.Context(), run.Payload); writ.CodeOf(err) != writ.CodeRecordForged {
					t.Errorf("a node gets %q, %v", text, err)
				}
				s.wantForged(run.ID)
			})
		})
	}
}

func TestMissingSubmissionEndsItsRun(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(2*time.Minute))
		id := s.submit(waitsForOne)
		s.awaitCall(id, 1, writ.CallRunning)
		s.again(func() { s.tamper(`DELETE FROM payloads`) })
		s.wantForged(id)
	})
}

func TestForgedRunsLogFewLines(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		const runs = 100
		var ids []writ.RunID
		for range runs {
			ids = append(ids, s.submit(waitsForOne))
		}
		s.again(func() { s.execOn(`UPDATE payloads SET signed = x'00'`) })
		for _, id := range ids {
			if run, _ := s.wantState(id, writ.RunFailed); run.Failure.Code != writ.CodeRecordForged {
				t.Errorf("a run failed with %+v", run.Failure)
			}
		}
		if n := s.logs.Lines("RECORD_FORGED"); n == 0 || n > 5 {
			t.Errorf("%d runs made %d lines", runs, n)
		}
	})
}

// Who can write to the database may keep a run from being looked for; it is looked at all the same before anything follows from it.
func TestRevocationReachesHiddenRun(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(30*time.Second))
		id := s.submit(waitsForOne)
		s.awaitCall(id, 1, writ.CallRunning)
		s.tamper(`UPDATE runs SET judged = 1000`)
		s.revoke()
		if _, err := s.AdoptRosters(t.Context(), s.rosters); err != nil {
			t.Fatal(err)
		}
		s.wantState(id, writ.RunCancelled)
		s.wantSentAtMost(1)
	})
}

func TestDatabaseCannotExpireRun(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(30*time.Second))
		id := s.submit(waitsForOne)
		s.awaitCall(id, 1, writ.CallRunning)
		s.tamper(`UPDATE runs SET due = 1`)
		s.wantState(id, writ.RunSucceeded)
	})
}

// A submission costs one SHA-256 to give to a node again; the first time, and by another roster, it is verified.
func BenchmarkGivePayload(b *testing.B) {
	for _, kib := range []int{1, 60} {
		b.Run(fmt.Sprint(kib, "KiB"), func(b *testing.B) {
			s := newSim(b)
			p := s.payload(waitsForOne + strings.Repeat("// "+strings.Repeat("x", 60)+"\n", kib*16))
			run, err := s.Submit(b.Context(), s.signPayload(p))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := s.Payload(b.Context(), run.Payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
