package journal_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/supervisor/journal"
)

var longAgo = time.Now().Add(-100 * 24 * time.Hour)

// sharers lists the runs that share a frame of results.
var sharers = map[string][]string{"shared": {"old", "young"}, "f": {"old", "open"}}

// addOld adds a run that ended at the given time. Its calls have two deliveries, a result and a log line each. The
// result of every other call arrived after the call had ended.
func addOld(t *testing.T, j *journal.Journal, name string, calls int, ended, expires time.Time, frame string) *journal.Run {
	t.Helper()
	payload := writ.DigestOf([]byte(name))
	r := &journal.Run{Run: writ.Run{ID: writ.RunIDOf(payload), Payload: payload, Project: "p", State: writ.RunAccepted, Deadline: longAgo}, Expires: expires}
	err := j.Write(t.Context(), func(tx *journal.Tx) error {
		if _, _, err := tx.AddRun(r, 1, make([]byte, 4000)); err != nil {
			return err
		}
		for seq := 1; seq <= calls; seq++ {
			c := &journal.Call{Call: writ.Call{Run: r.ID, Seq: seq, Attempt: 1, State: writ.CallQueued, Node: "n"}}
			for c.Delivery = range 2 {
				if err := tx.AddDelivery(c, writ.DigestOf([]byte("job")), 1); err != nil {
					return err
				}
			}
			if err := tx.PutCall(c); err != nil {
				return err
			}
			c.Committed()
			c.State = writ.CallSucceeded
			if late := seq%2 == 1; late {
				if err := tx.PutCall(c); err != nil {
					return err
				}
				c.Committed()
			}
			if first, err := tx.AddResult(c, c.Attempt, aFrame(frame, frameRuns(name, frame)...)); err != nil || !first {
				t.Errorf("the result of call %d: first = %t, %v", seq, first, err)
			}
			if err := tx.PutCall(c); err != nil {
				return err
			}
			if err := tx.AddLog(writ.LogLine{Run: r.ID, Ordinal: seq, Text: "line"}); err != nil {
				return err
			}
		}
		stored, err := tx.Run(r.ID)
		if err != nil || ended.IsZero() {
			return err
		}
		stored.State, stored.Ended = writ.RunSucceeded, ended
		return tx.PutRun(stored)
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func frameRuns(run, frame string) []string {
	if runs, ok := sharers[frame]; ok {
		return runs
	}
	return []string{run}
}

// aFrame returns a message of a node with results of runs.
func aFrame(name string, runs ...string) *journal.Frame {
	f := &journal.Frame{Digest: writ.DigestOf([]byte(name)), Signed: make([]byte, 4000)}
	for _, run := range runs {
		f.Runs = append(f.Runs, aRun(run).ID)
	}
	return f
}

// counts returns the number of rows of each table that Forget deletes from.
func counts(t *testing.T, j *journal.Journal) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for _, table := range []string{"runs", "payloads", "calls", "deliveries", "results", "frames", "logs", "events", "statements", "forgotten"} {
		if n := number(t, j, "SELECT COUNT(*) FROM "+table); n > 0 {
			all[table] = n
		}
	}
	return all
}

func forgetAll(t *testing.T, j *journal.Journal, ended time.Time, coordinators ...string) (steps int) {
	t.Helper()
	for more := true; more; steps++ {
		var err error
		if more, err = j.Forget(t.Context(), time.Now(), ended, coordinators); err != nil {
			t.Fatal(err)
		}
	}
	return steps
}

// Promise: Limits and shares: A journal deletes runs 90 days after their end (`--keep-runs`), and events a week after
// every coordinator received them; late submissions and resumes still get their answers.
// How: One small step at a time in the single writer, which may stop after each step; resources remain.
// Also: TestRunsOfEarlierVersionsAreForgotten, TestPrunedJournalDoesNotGrow,
// TestConfirmedEventsStayAWeek, TestStatementsAreKeptADayAfterExpiry,
// TestForgottenRunLeavesItsResources.
func TestOldRunsAreForgottenWholeInSmallSteps(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j, err := journal.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now().Add(-90 * 24 * time.Hour)
		big := addOld(t, j, "big", 700, longAgo, longAgo, "of big")
		addOld(t, j, "old", 3, longAgo, longAgo, "shared")
		kept := []*journal.Run{
			addOld(t, j, "young", 2, before.Add(time.Minute), longAgo, "shared"),
			addOld(t, j, "may come again", 2, longAgo, time.Now().Add(-journal.ReplayKept+time.Minute), "of replay"),
			addOld(t, j, "open", 2, time.Time{}, longAgo, "of open"),
		}
		rows := 0
		for more, first := true, true; more; first = false {
			was := total(counts(t, j))
			if more, err = j.Forget(t.Context(), time.Now(), before, nil); err != nil {
				t.Fatal(err)
			}
			now := total(counts(t, j))
			if was-now > 2*journal.ForgetRowsForTest {
				t.Errorf("one step deleted %d rows", was-now)
			}
			if first { // invisible at once
				if err := j.Read(t.Context(), func(tx *journal.Tx) error {
					if r, err := tx.Run(big.ID); r != nil || err != nil {
						t.Errorf("after one step: %v, %v", r, err)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			rows += was - now
			if err := j.Close(); err != nil { // it continues where it stopped
				t.Fatal(err)
			}
			if j, err = journal.Open(t.Context(), path); err != nil {
				t.Fatal(err)
			}
		}
		defer j.Close()
		want := map[string]int{"runs": 3, "payloads": 3, "calls": 6, "deliveries": 6, "results": 3, "logs": 6, "frames": 3}
		if diff := cmp.Diff(want, counts(t, j)); diff != "" {
			t.Errorf("remaining rows (-want +got):\n%s", diff)
		}
		for _, r := range kept {
			if err := j.Read(t.Context(), func(tx *journal.Tx) error {
				calls, err := tx.Calls(r.ID)
				if err != nil || len(calls) != 2 {
					t.Errorf("run %s has %d calls, %v", r.ID, len(calls), err)
				}
				signed, err := tx.Payload(r.Payload)
				if signed == nil {
					t.Errorf("run %s has no payload", r.ID)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func number(t *testing.T, j *journal.Journal, query string) int {
	t.Helper()
	n, err := j.NumberForTest(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestConfirmedEventsStayAWeek(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j, err := journal.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		const together, commits = 5, journal.ForgetEventsForTest + 10
		for range commits {
			write(t, j, func(tx *journal.Tx) error {
				tx.AddEvents(make([]writ.Event, together)...)
				return nil
			})
		}
		left := func(want int, why string) {
			t.Helper()
			forgetAll(t, j, longAgo, "a", "b")
			if got := together * counts(t, j)["events"]; got != want {
				t.Errorf("%s: %d events are left, want %d", why, got, want)
			}
		}
		acknowledge := func(coordinator string, seq int64) {
			t.Helper()
			if err := j.Feed(coordinator).Acknowledge(t.Context(), seq); err != nil {
				t.Fatal(err)
			}
		}
		weekAgo := func() {
			t.Helper()
			week := time.Now().Add(-journal.EventsKeptForTest).UnixMicro()
			if err := j.ExecForTest(t.Context(), `UPDATE event_marks SET at = $1 - seq WHERE at > $1`, week); err != nil {
				t.Fatal(err)
			}
		}
		all := together * commits
		acknowledge("a", int64(all))
		left(all, "one coordinator has no events yet")
		weekAgo()
		left(all, "nor after a week")
		acknowledge("b", int64(all-2)) // in the middle of a commit
		left(all, "both have them since now")
		weekAgo()
		left(5, "both had them a week ago")
		acknowledge("b", int64(all))
		left(5, "the last ones since now")
		if events, err := j.Events(t.Context(), 0, 10); err != nil || len(events) != 5 || events[0].Seq != int64(all-4) {
			t.Errorf("Events = %+v, %v", events, err)
		}
		if err := j.Write(t.Context(), func(tx *journal.Tx) error {
			tx.AddEvents(writ.Event{})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if events, err := j.Events(t.Context(), int64(all), 10); err != nil || len(events) != 1 || events[0].Seq != int64(all+1) {
			t.Errorf("the next event is %+v, %v", events, err)
		}
	})
}

func TestStatementsAreKeptADayAfterExpiry(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j, err := journal.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if err := j.Write(t.Context(), func(tx *journal.Tx) error {
			for i, expires := range []time.Time{time.Now().Add(-journal.ReplayKept - time.Minute), time.Now().Add(-journal.ReplayKept + time.Minute)} {
				text := journal.Text{Digest: writ.DigestOf([]byte{byte(i)}), Signer: "alice", Signed: []byte("signed"), Expires: expires}
				if err := tx.AddStatement(text, []byte("answer")); err != nil {
					return err
				}
				text.Digest = writ.DigestOf([]byte{byte(i), 1})
				if err := tx.AddRefusal(text, []byte("answer")); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		forgetAll(t, j, longAgo)
		if err := j.Read(t.Context(), func(tx *journal.Tx) error {
			for i, want := range []string{"", "answer"} {
				if got, err := tx.StatementAnswer(writ.DigestOf([]byte{byte(i)})); string(got) != want || err != nil {
					t.Errorf("statement %d is answered %q, %v", i, got, err)
				}
				if got, err := tx.Refusal(writ.DigestOf([]byte{byte(i), 1})); string(got) != want || err != nil {
					t.Errorf("refused statement %d is answered %q, %v", i, got, err)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// The file does not shrink; the space of deleted rows is reused.
func TestPrunedJournalDoesNotGrow(t *testing.T) {
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var pages []int
	for generation := range 4 {
		for i := range 40 {
			name := fmt.Sprint(generation, "-", i)
			addOld(t, j, name, 10, longAgo, longAgo, name)
		}
		pages = append(pages, number(t, j, "PRAGMA page_count"))
		forgetAll(t, j, time.Now())
	}
	if last := pages[len(pages)-1]; last > pages[0]*11/10 {
		t.Errorf("the file had %d pages, generation by generation", pages)
	}
}

// The migration must find the runs that ended before it.
func TestRunsOfEarlierVersionsAreForgotten(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j, err := journal.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		addOld(t, j, "old", 1, longAgo, longAgo, "f")
		addOld(t, j, "open", 1, time.Time{}, longAgo, "f")
		migration, err := journal.MigrationForTest("0005_retention.sql")
		if err != nil {
			t.Fatal(err)
		}
		updates := regexp.MustCompile(`UPDATE [^;]+`).FindAllString(migration, -1)
		for _, query := range append([]string{`UPDATE runs SET ended = 0, needed = 0`}, updates...) { // as ADD COLUMN leaves them
			if err := j.ExecForTest(t.Context(), query); err != nil {
				t.Fatal(err)
			}
		}
		forgetAll(t, j, time.Now().Add(-90*24*time.Hour))
		want := map[string]int{"runs": 1, "payloads": 1, "calls": 1, "deliveries": 1, "results": 1, "logs": 1, "frames": 1}
		if diff := cmp.Diff(want, counts(t, j)); diff != "" {
			t.Errorf("remaining rows (-want +got):\n%s", diff)
		}
	})
}

// In earlier versions each result has a row, and frames do not list their runs.
func TestOldFramesEndWithTheirLastResult(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		for _, name := range []string{"old", "young"} {
			ended := longAgo
			if name == "young" {
				ended = time.Now()
			}
			run := addOld(t, j, name, 2, ended, longAgo, "its own "+name)
			for _, query := range []string{
				`UPDATE results SET digest = 'sha256:shared' WHERE run = $1`,
				`INSERT INTO frames (digest, sealed) SELECT 'sha256:shared', 'sealed' WHERE $1 <> '' AND NOT EXISTS (SELECT 1 FROM frames WHERE digest = 'sha256:shared')`,
			} {
				if err := j.ExecForTest(t.Context(), query, string(run.ID)); err != nil {
					t.Fatal(err)
				}
			}
		}
		const shared = `SELECT COUNT(*) FROM frames WHERE digest = 'sha256:shared'`
		forgetAll(t, j, time.Now().Add(-time.Hour))
		if n := number(t, j, shared); n != 1 {
			t.Errorf("%d frames of an existing run, want 1", n)
		}
		forgetAll(t, j, time.Now().Add(time.Hour))
		if n := number(t, j, `SELECT COUNT(*) FROM frames`); n != 0 {
			t.Errorf("%d frames are left of runs that are gone", n)
		}
	})
}
