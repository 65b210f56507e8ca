package journal_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"writ"
	"writ/runner/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func job(seq int, endBy time.Time) *writ.Job {
	return &writ.Job{
		JobKey:    writ.JobKey{Run: "aaaaaaaaaaaaaaaaaaaaaaaaaa", Seq: seq, Try: 1},
		Operation: "volume.create", EndBy: endBy.UnixMilli(),
	}
}

func answer(key writ.JobKey, text string) *writ.Result {
	return &writ.Result{
		JobKey: key, Job: writ.DigestOf([]byte(text)), Node: "n", Change: writ.ChangeCreated, Incarnation: 1, Started: 1, Ended: 2,
		Values: map[string]any{"path": text, "size_gib": int64(10), "tags": []any{"a", true, nil}},
	}
}

func TestAStartedJobIsKnownAfterTheProcessIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runner.db")
	first := job(1, time.Now().Add(time.Hour))
	j := open(t, path)
	before, err := j.Start(t.Context(), first, writ.DigestOf([]byte("1")), 7)
	if err != nil || before != nil {
		t.Fatalf("the first start found %+v, %v", before, err)
	}
	must(t, j.Close())

	j = open(t, path)
	again, err := j.Start(t.Context(), first, writ.DigestOf([]byte("2")), 8)
	if err != nil || again == nil {
		t.Fatalf("the second start found %+v, %v", again, err)
	}
	if again.Incarnation != 7 || again.Result != nil || again.Started.IsZero() {
		t.Errorf("entry = %+v, want one that incarnation 7 began and nobody ended", again)
	}
}

func TestTheFirstResultStays(t *testing.T) {
	j := open(t, ":memory:")
	one := job(1, time.Now().Add(time.Hour))
	_, err := j.Start(t.Context(), one, writ.Digest{}, 1)
	must(t, err)
	must(t, j.Finish(t.Context(), answer(one.JobKey, "first")))
	must(t, j.Finish(t.Context(), answer(one.JobKey, "second")))
	stands, err := j.Refuse(t.Context(), one, writ.Digest{}, 2, func(*journal.Entry) *writ.Result {
		return answer(one.JobKey, "third")
	})
	must(t, err)
	if diff := cmp.Diff(answer(one.JobKey, "first"), stands); diff != "" {
		t.Error(diff)
	}
	if err := j.Finish(t.Context(), answer(job(2, time.Now()).JobKey, "never started")); err == nil {
		t.Error("a job that was never started could be finished")
	}
}

func TestARefusalEndsAJobThatWasOnlyStarted(t *testing.T) {
	j := open(t, ":memory:")
	for seq := range 2 {
		one := job(seq, time.Now().Add(time.Hour))
		if seq == 1 {
			_, err := j.Start(t.Context(), one, writ.Digest{}, 1)
			must(t, err)
		}
		var before *journal.Entry
		_, err := j.Refuse(t.Context(), one, writ.Digest{}, 2, func(entry *journal.Entry) *writ.Result {
			before = entry
			return answer(one.JobKey, "refused")
		})
		must(t, err)
		if started := before != nil && before.Incarnation == 1; started != (seq == 1) {
			t.Errorf("seq %d: the refusal was told of %+v", seq, before)
		}
		entry, err := j.Find(t.Context(), one.JobKey)
		must(t, err)
		if diff := cmp.Diff(answer(one.JobKey, "refused"), entry.Result); diff != "" {
			t.Errorf("seq %d: %s", seq, diff)
		}
	}
}

func TestResultsAreUnacknowledgedUntilTheyAreAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runner.db")
	j := open(t, path)
	for seq := range 3 {
		one := job(seq, time.Now().Add(time.Hour))
		_, err := j.Start(t.Context(), one, writ.Digest{}, 1)
		must(t, err)
		if seq < 2 {
			must(t, j.Finish(t.Context(), answer(one.JobKey, "x")))
		}
	}
	// An acknowledgement of what has no result yet, a forged or a confused one, must not swallow the result that comes.
	must(t, j.Acknowledge(t.Context(), job(0, time.Now()).JobKey, job(2, time.Now()).JobKey))
	must(t, j.Finish(t.Context(), answer(job(2, time.Now()).JobKey, "x")))
	must(t, j.Close())

	j = open(t, path)
	open, err := j.Unacknowledged(t.Context())
	must(t, err)
	var seqs []int
	for _, u := range open {
		seqs = append(seqs, u.Result.Seq)
	}
	if diff := cmp.Diff([]int{1, 2}, seqs); diff != "" {
		t.Error(diff)
	}
}

func TestEpochAndIncarnationOnlyRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "runner.db")
		last := time.Now().UnixMilli() - 1
		for start := int64(1); start <= 3; start++ { // in one and the same millisecond
			j := open(t, path)
			incarnation, err := j.Begin(t.Context())
			must(t, err)
			if incarnation <= last {
				t.Errorf("start %d has the number %d, the one before had %d", start, incarnation, last)
			}
			last = incarnation
			must(t, j.RaiseEpoch(t.Context(), 40+start))
			must(t, j.RaiseEpoch(t.Context(), 3))
			if epoch, err := j.Epoch(t.Context()); err != nil || epoch != 40+start {
				t.Errorf("epoch = %d, %v, want %d", epoch, err, 40+start)
			}
			must(t, j.Close())
		}
		time.Sleep(time.Second) // then the file is lost
		if incarnation, err := open(t, ":memory:").Begin(t.Context()); err != nil || incarnation <= last {
			t.Errorf("the start after a loss has the number %d, %v; the one before had %d", incarnation, err, last)
		}
	})
}

func TestPruneForgetsADayAfterEndBy(t *testing.T) {
	j := open(t, ":memory:")
	now := time.Now()
	for seq, endBy := range []time.Time{now.Add(-journal.Keep - time.Minute), now.Add(-journal.Keep + time.Minute), now} {
		_, err := j.Start(t.Context(), job(seq, endBy), writ.Digest{}, 1)
		must(t, err)
	}
	must(t, j.Cancel(t.Context(), map[writ.RunID]journal.Cancel{"old": {Until: now.Add(-time.Second)}, "new": {Until: now.Add(time.Hour)}}))
	must(t, j.Cancel(t.Context(), map[writ.RunID]journal.Cancel{"new": {Until: now.Add(time.Minute), Resumes: 1}})) // does not shorten
	must(t, j.Prune(t.Context(), now))

	for seq, want := range []bool{false, true, true} {
		entry, err := j.Find(t.Context(), job(seq, now).JobKey)
		must(t, err)
		if got := entry != nil; got != want {
			t.Errorf("entry %d is kept: %v, want %v", seq, got, want)
		}
	}
	cancels, err := j.Cancels(t.Context())
	must(t, err)
	if diff := cmp.Diff(map[writ.RunID]journal.Cancel{"new": {Until: now.Add(time.Hour).Truncate(time.Microsecond).UTC(), Resumes: 1}}, cancels); diff != "" {
		t.Error(diff)
	}
}

func TestASecondRunnerOnTheSameJournalIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runner.db")
	j := open(t, path)
	if _, err := journal.Open(t.Context(), path); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("second open: %v, want %s", err, writ.CodeConflict)
	}
	must(t, j.Probe(t.Context()))
	must(t, j.Close())
	open(t, path)
}
