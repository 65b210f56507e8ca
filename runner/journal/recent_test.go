package journal

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"writ"
)

// Runs come back after many others. All their records must be found, and no others.
func TestEvictedRunsAreReadFromTheJournal(t *testing.T) {
	j, err := Open(t.Context(), filepath.Join(t.TempDir(), "runner.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	jobOf := func(run, seq int) *writ.Job {
		return &writ.Job{
			JobKey: writ.JobKey{Run: writ.RunIDOf(writ.DigestOf(fmt.Append(nil, run))), Seq: seq, Attempt: 1}, Operation: "volume.create",
			EndBy: time.Now().Add(time.Hour).UnixMilli(),
		}
	}
	seqs := []int{1, 70, recentCalls, 5 * recentCalls}
	const runs = 20
	for run := range runs {
		for _, seq := range seqs {
			one := jobOf(run, seq)
			if err := j.Finish(t.Context(), one, &writ.Result{JobKey: one.JobKey}, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := range 3 {
		for run := range runs {
			for _, seq := range append(slices.Clone(seqs), 2, 71, recentCalls+1) {
				past, err := j.Start(t.Context(), jobOf(run, seq), writ.Digest{}, 1, false)
				if known := past != nil; err != nil || known != slices.Contains(seqs, seq) {
					t.Errorf("round %d, run %d, call %d: known = %v, %v", round, run, seq, known, err)
				}
			}
		}
		for n := range 3 * recentRuns {
			j.recent.release(j.recent.hold(writ.RunID(fmt.Sprint(round, n))))
		}
		if young, old := len(j.recent.young), len(j.recent.old); young+old > 2*recentRuns {
			t.Errorf("%d and %d runs are remembered", young, old)
		}
	}
}

// A call counts from before its record is written, even for a reader that read the journal before, and even if many
// other runs come in between.
func TestRunInWriteIsNotEvicted(t *testing.T) {
	j, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	one := &writ.Job{JobKey: writ.JobKey{Run: "aaaaaaaaaaaaaaaaaaaaaaaaaa", Seq: 3, Attempt: 1}, EndBy: time.Now().UnixMilli()}
	writes := j.recent.hold(one.Run)
	writes.mark(one.Seq)
	for n := range 3 * recentRuns {
		j.recent.release(j.recent.hold(writ.RunID(fmt.Sprint(n))))
	}
	asks := j.recent.hold(one.Run)
	if there, err := asks.mayHave(t.Context(), one.Seq, func(context.Context) ([]int, error) { return nil, nil }); err != nil || !there {
		t.Errorf("entry during its write: %v, %v, want true", there, err)
	}
	j.recent.release(asks)
	j.recent.release(writes)
	for n := range 3 * recentRuns {
		j.recent.release(j.recent.hold(writ.RunID(fmt.Sprint(n))))
	}
	if j.recent.young[one.Run] != nil || j.recent.old[one.Run] != nil {
		t.Error("a released run is never forgotten")
	}
}
