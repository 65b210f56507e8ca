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

// logCapture collects the log.
type logCapture struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// also returns a writer that writes to w and to s, or just w if s is nil.
func (s *logCapture) also(w io.Writer) io.Writer {
	if s == nil {
		return w
	}
	return io.MultiWriter(w, s)
}

func (s *logCapture) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

// times counts the lines that contain one of the words.
func (s *logCapture) times(words ...string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.text.String()) {
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

// onBoth runs a test in virtual time with a journal in a file, and with a journal on PostgreSQL. The test may write to
// either database.
func onBoth(t *testing.T, test func(t *testing.T, s *sim)) {
	t.Helper()
	in := func(place func(s *sim) string) func(t *testing.T) {
		return func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newCluster(t)
				s.place, s.captured = place(s), new(logCapture)
				s.start()
				test(t, s)
			})
		}
	}
	t.Run("file", in(func(s *sim) string { return s.place }))
	address := server.Store(t) // started outside of the bubble, in real time
	t.Run("PostgreSQL", in(func(*sim) string { return address }))
}

// tamper changes the database as an attacker with write access can.
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

// again changes the journal, and starts a new supervisor on it without any state in memory.
func (s *sim) again(change func()) {
	s.t.Helper()
	change()
	s.halt()
	s.start()
}

// wantForged fails the test unless the run has failed with RECORD_FORGED, was logged once, and sent no further jobs.
func (s *sim) wantForged(id writ.RunID) {
	s.t.Helper()
	run, _ := s.wantState(id, writ.RunFailed)
	if run.Failure.Code != writ.CodeRecordForged || run.Failure.Hint == "" {
		s.t.Errorf("failure = %+v", run.Failure)
	}
	if summaries, _, err := envelope.Open[writ.Summary](envelope.Summary, run.Summary, envelope.Only(s.key.Public().(ed25519.PublicKey))); err != nil || len(summaries) != 1 || summaries[0].State != writ.RunFailed || summaries[0].Output != nil {
		s.t.Errorf("signed summaries = %+v, %v", summaries, err)
	}
	if code, lines := s.captured.times("RECORD_FORGED"), s.captured.times("no longer has its accepted"); code != 1 || lines != 1 {
		s.t.Errorf("logged %d times, with its code %d times; want 1 and 1", lines, code)
	}
	s.wantSentAtMost(1)
}

// wantSentAtMost fails the test if a node received a job of a call after seq.
func (s *sim) wantSentAtMost(seq int) {
	s.t.Helper()
	for _, n := range s.nodes {
		n.mu.Lock()
		for _, job := range n.jobs {
			if job.Seq > seq {
				s.t.Errorf("%s received the job of call %d", n.name, job.Seq)
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
					t.Errorf("payload for a node = %q, %v; want RECORD_FORGED", text, err)
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
				t.Errorf("failure = %+v", run.Failure)
			}
		}
		if n := s.logs.Lines("RECORD_FORGED"); n == 0 || n > 5 {
			t.Errorf("%d runs produced %d lines, want 1 to 5", runs, n)
		}
	})
}

// An attacker with write access to the database can hide a run from the search for affected runs. The supervisor still
// checks its signer before it acts for the run.
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

// BenchmarkGivePayload measures sending a submission to a node again, which costs one SHA-256. It is verified the first
// time, and again under each new roster.
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
