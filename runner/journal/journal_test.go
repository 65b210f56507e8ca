package journal_test

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"writ"
	"writ/internal/test/testenv"
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
		JobKey:    writ.JobKey{Run: "aaaaaaaaaaaaaaaaaaaaaaaaaa", Seq: seq, Attempt: 1},
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
	before, err := j.Start(t.Context(), first, writ.DigestOf([]byte("1")), 7, true)
	if err != nil || before != nil {
		t.Fatalf("the first start found %+v, %v", before, err)
	}
	must(t, j.Close())

	j = open(t, path)
	again, err := j.Start(t.Context(), first, writ.DigestOf([]byte("2")), 8, true)
	if err != nil || again == nil {
		t.Fatalf("the second start found %+v, %v", again, err)
	}
	if e := again.Entry; e == nil || e.Incarnation != 7 || e.Result != nil || e.Started.IsZero() {
		t.Errorf("entry = %+v, want it started by incarnation 7, without a result", e)
	}
}

func TestTheFirstResultStays(t *testing.T) {
	j := open(t, ":memory:")
	one := job(1, time.Now().Add(time.Hour))
	_, err := j.Start(t.Context(), one, writ.Digest{}, 1, true)
	must(t, err)
	must(t, j.Finish(t.Context(), one, answer(one.JobKey, "first"), true))
	must(t, j.Finish(t.Context(), one, answer(one.JobKey, "second"), true))
	must(t, j.Finish(t.Context(), one, answer(one.JobKey, "second"), false))
	stands, err := j.Refuse(t.Context(), one, writ.Digest{}, 2, func(*journal.Entry) *writ.Result {
		return answer(one.JobKey, "third")
	})
	must(t, err)
	if diff := cmp.Diff(answer(one.JobKey, "first"), stands); diff != "" {
		t.Error(diff)
	}
	if err := j.Finish(t.Context(), job(2, time.Now()), answer(job(2, time.Now()).JobKey, "never started"), true); err == nil {
		t.Error("a job that was never started could be finished")
	}
}

func TestARepeatableJobIsRecordedWhenItIsDone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runner.db")
	j := open(t, path)
	one := job(1, time.Now().Add(time.Hour))
	for range 2 { // the node stopped before it finished
		if past, err := j.Start(t.Context(), one, writ.DigestOf([]byte("1")), 7, false); err != nil || past != nil {
			t.Fatalf("held up by %+v, %v", past, err)
		}
		if entry, err := j.Find(t.Context(), one.JobKey); err != nil || entry != nil {
			t.Errorf("%+v, %v before it is done", entry, err)
		}
	}
	done := answer(one.JobKey, "first")
	done.Incarnation = 7
	must(t, j.Finish(t.Context(), one, done, false))
	must(t, j.Finish(t.Context(), one, answer(one.JobKey, "second"), false))
	for _, when := range []string{"at once", "after a restart"} {
		past, err := j.Start(t.Context(), one, writ.DigestOf([]byte("2")), 8, false)
		if err != nil || past == nil || past.Entry == nil {
			t.Fatalf("%s: it begins again: %+v, %v", when, past, err)
		}
		want := &journal.Entry{Incarnation: 7, Started: time.UnixMilli(done.Started).UTC(), Result: done}
		if diff := cmp.Diff(want, past.Entry); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
		must(t, j.Close())
		j = open(t, path)
	}
	if open, err := j.Unacknowledged(t.Context()); err != nil || len(open) != 1 || !open[0].Until.Equal(one.Until()) {
		t.Errorf("to be sent again: %+v, %v", open, err)
	}
}

// An earlier version also recorded the start of repeatable jobs.
func TestJobOfEarlierVersionIsEnded(t *testing.T) {
	j := open(t, ":memory:")
	one := job(1, time.Now().Add(time.Hour))
	_, err := j.Start(t.Context(), one, writ.Digest{}, 1, true)
	must(t, err)
	past, err := j.Start(t.Context(), one, writ.Digest{}, 2, false)
	if err != nil || past == nil || past.Entry == nil || past.Entry.Result != nil {
		t.Fatalf("past = %+v, %v, want an entry without a result", past, err)
	}
	must(t, j.Finish(t.Context(), one, answer(one.JobKey, "x"), false))
	entry, err := j.Find(t.Context(), one.JobKey)
	must(t, err)
	if diff := cmp.Diff(answer(one.JobKey, "x"), entry.Result); diff != "" {
		t.Error(diff)
	}
}

func TestRefusalEndsStartedJob(t *testing.T) {
	j := open(t, ":memory:")
	for seq := range 2 {
		one := job(seq, time.Now().Add(time.Hour))
		if seq == 1 {
			_, err := j.Start(t.Context(), one, writ.Digest{}, 1, true)
			must(t, err)
		}
		var before *journal.Entry
		_, err := j.Refuse(t.Context(), one, writ.Digest{}, 2, func(entry *journal.Entry) *writ.Result {
			before = entry
			return answer(one.JobKey, "refused")
		})
		must(t, err)
		if started := before != nil && before.Incarnation == 1; started != (seq == 1) {
			t.Errorf("seq %d: entry before the refusal = %+v", seq, before)
		}
		entry, err := j.Find(t.Context(), one.JobKey)
		must(t, err)
		if diff := cmp.Diff(answer(one.JobKey, "refused"), entry.Result); diff != "" {
			t.Errorf("seq %d: %s", seq, diff)
		}
	}
}

func TestAcknowledgedResultsAreNotResent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runner.db")
	j := open(t, path)
	for seq := range 3 {
		one := job(seq, time.Now().Add(time.Hour))
		_, err := j.Start(t.Context(), one, writ.Digest{}, 1, true)
		must(t, err)
		if seq < 2 {
			must(t, j.Finish(t.Context(), one, answer(one.JobKey, "x"), true))
		}
	}
	// A forged or misdirected acknowledgement of a job without a result must not suppress its later result.
	must(t, j.Acknowledge(t.Context(), job(0, time.Now()).JobKey, job(2, time.Now()).JobKey))
	two := job(2, time.Now())
	must(t, j.Finish(t.Context(), two, answer(two.JobKey, "x"), true))
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

func TestManyAcknowledgementsAreRecordedInParts(t *testing.T) {
	j := open(t, ":memory:")
	var keys []writ.JobKey
	for seq := 1; seq <= 600; seq++ {
		one := job(seq, time.Now())
		must(t, j.Finish(t.Context(), one, answer(one.JobKey, "x"), false))
		if seq != 257 && seq != 400 {
			keys = append(keys, one.JobKey)
		}
	}
	must(t, j.Acknowledge(t.Context(), keys...))
	left, err := j.Unacknowledged(t.Context())
	must(t, err)
	if len(left) != 2 || left[0].Result.Seq+left[1].Result.Seq != 657 {
		t.Errorf("%d unacknowledged results, want those of calls 257 and 400", len(left))
	}
}

// done ends a property check on an error.
func done(r *rapid.T, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func TestAcknowledgeAffectsOnlyNamedJobs(t *testing.T) {
	testenv.CheckProperty(t, func(r *rapid.T) {
		j := open(t, ":memory:")
		defer j.Close()
		keys := rapid.SliceOfNDistinct(rapid.Custom(func(r *rapid.T) writ.JobKey {
			return writ.JobKey{
				Run: rapid.SampledFrom([]writ.RunID{"aaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaab"}).Draw(r, "run"),
				Seq: rapid.IntRange(1, 6).Draw(r, "seq"), Attempt: rapid.IntRange(1, 2).Draw(r, "try"),
			}
		}), 1, 24, rapid.ID).Draw(r, "keys")
		for _, key := range keys {
			done(r, j.Finish(t.Context(), &writ.Job{JobKey: key, Operation: "node.ping"}, answer(key, "x"), false))
		}
		named := keys[:rapid.IntRange(0, len(keys)).Draw(r, "named")]
		want := slices.Clone(keys[len(named):])
		done(r, j.Acknowledge(t.Context(), slices.Concat(named, named)...))

		unacknowledged, err := j.Unacknowledged(t.Context())
		done(r, err)
		var left []writ.JobKey
		for _, u := range unacknowledged {
			left = append(left, u.Result.JobKey)
		}
		sort := cmpopts.SortSlices(func(a, b writ.JobKey) bool { return a.String() < b.String() })
		if diff := cmp.Diff(want, left, sort, cmpopts.EquateEmpty()); diff != "" {
			r.Error(diff)
		}
	})
}

func TestEpochAndIncarnationOnlyRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "runner.db")
		last := time.Now().UnixMilli() - 1
		for start := int64(1); start <= 3; start++ { // in the same millisecond
			j := open(t, path)
			incarnation, err := j.Begin(t.Context(), "n1")
			must(t, err)
			if incarnation <= last {
				t.Errorf("start %d has number %d, the previous one %d", start, incarnation, last)
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
		if incarnation, err := open(t, ":memory:").Begin(t.Context(), "n1"); err != nil || incarnation <= last {
			t.Errorf("start after the loss has number %d, %v; the previous one %d", incarnation, err, last)
		}
	})
}

// With the journal of another node, a node would not know which jobs it has done.
func TestForeignJournalIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runner.db")
	j := open(t, path)
	for range 2 {
		if _, err := j.Begin(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
	}
	before, err := j.Begin(t.Context(), "n2")
	if writ.CodeOf(err) != writ.CodeDataIncomplete || before != 0 {
		t.Errorf("another node begins with %d, %v", before, err)
	}
	if _, err := j.Begin(t.Context(), "n1"); err != nil {
		t.Error(err)
	}
}

func TestPruneForgetsADayAfterTheLastDelivery(t *testing.T) {
	j := open(t, ":memory:")
	now := time.Now()
	old := now.Add(-journal.Keep - time.Minute)
	for seq, endBy := range []time.Time{old, now.Add(-journal.Keep + time.Minute), now, old} {
		begun := job(seq, endBy)
		if seq == 3 {
			begun.Deadline = now.UnixMilli() // of its run, which may have it delivered again until then
		}
		_, err := j.Start(t.Context(), begun, writ.Digest{}, 1, true)
		must(t, err)
	}
	must(t, j.Cancels.Add(t.Context(), map[writ.RunID]journal.Cancel{"old": {Until: now.Add(-time.Second)}, "new": {Until: now.Add(time.Hour)}}))
	// Does not shorten.
	must(t, j.Cancels.Add(t.Context(), map[writ.RunID]journal.Cancel{"new": {Until: now.Add(time.Minute), Resumes: 1}}))
	must(t, j.Prune(t.Context(), now))

	for seq, want := range []bool{false, true, true, true} {
		entry, err := j.Find(t.Context(), job(seq, now).JobKey)
		must(t, err)
		if got := entry != nil; got != want {
			t.Errorf("entry %d is kept: %v, want %v", seq, got, want)
		}
	}
	cancels, err := j.Cancels.All(t.Context())
	must(t, err)
	if diff := cmp.Diff(map[writ.RunID]journal.Cancel{"new": {Until: now.Add(time.Hour).Truncate(time.Microsecond).UTC(), Resumes: 1}}, cancels); diff != "" {
		t.Error(diff)
	}
}

func TestPruneForgetsAllHoweverMany(t *testing.T) {
	j := open(t, ":memory:")
	now := time.Now()
	old := now.Add(-journal.Keep - time.Minute)
	const many = 1201 // more than two commits delete
	var all errgroup.Group
	for seq := range many {
		all.Go(func() error {
			_, err := j.Start(t.Context(), job(seq, old), writ.Digest{}, 1, true)
			return err
		})
	}
	must(t, all.Wait())
	_, err := j.Start(t.Context(), job(many, now), writ.Digest{}, 1, true)
	must(t, err)
	must(t, j.Prune(t.Context(), now))
	for _, seq := range []int{0, many / 2, many - 1} {
		entry, err := j.Find(t.Context(), job(seq, now).JobKey)
		must(t, err)
		if entry != nil {
			t.Errorf("job %d is kept", seq)
		}
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

func TestEarlierAttemptsDecideExecution(t *testing.T) {
	const earlier, now = 1, 2 // incarnations
	failed := func(key writ.JobKey, code writ.Code) *writ.Result {
		return &writ.Result{JobKey: key, Error: writ.Errorf(code, "told to fail")}
	}
	for _, tt := range []struct {
		name  string
		by    int64        // the incarnation that started the first attempt
		end   *writ.Result // its result, or nil
		told  int
		once  string // why the second attempt of a job with once is forbidden
		later bool   // the attempt is not the second one, but an earlier one
	}{
		{name: "it succeeded", by: now, end: answer(job(1, time.Now()).JobKey, "x"), once: "done"},
		{name: "it was interrupted", by: earlier, once: "unclear"},
		{name: "it was interrupted, and this is known", by: earlier, told: 1},
		{name: "it was recorded and never began", by: now},
		{name: "it failed and may be tried again", by: now, end: failed(job(1, time.Now()).JobKey, writ.CodeInjected)},
		{name: "it failed, and this is unknown", by: now, end: failed(job(1, time.Now()).JobKey, writ.CodeOutcomeUnknown), once: "unclear"},
		{name: "it failed, and this is known", by: now, end: failed(job(1, time.Now()).JobKey, writ.CodeOutcomeUnknown), told: 1},
		{name: "it is the later one", by: now, end: answer(job(1, time.Now()).JobKey, "x"), once: "later", later: true},
	} {
		for _, once := range []bool{true, false} {
			t.Run(tt.name+map[bool]string{true: ", once", false: ", again and again"}[once], func(t *testing.T) {
				j := open(t, ":memory:")
				first, second := job(1, time.Now().Add(time.Hour)), job(1, time.Now().Add(time.Hour))
				first.Attempt, second.Attempt, second.KnownFailures = 1, 2, tt.told
				if tt.later {
					first.Attempt, second.Attempt = 2, 1
				}
				past, err := j.Start(t.Context(), first, writ.Digest{}, tt.by, once)
				must(t, err)
				if past != nil {
					t.Fatalf("the first attempt is held up by %+v", past)
				}
				if tt.end != nil {
					must(t, j.Finish(t.Context(), first, tt.end, once))
				}
				past, err = j.Start(t.Context(), second, writ.Digest{}, now, once)
				must(t, err)
				got := ""
				switch {
				case past == nil:
				case past.Later:
					got = "later"
				case past.Done != nil:
					got = "done"
				case past.Unclear:
					got = "unclear"
				}
				want := tt.once
				if !once && want != "later" {
					want = ""
				}
				if got != want {
					t.Errorf("objection = %q, want %q", got, want)
				}
				entry, err := j.Find(t.Context(), second.JobKey)
				must(t, err)
				if begun := entry != nil; begun != (want == "" && once) {
					t.Errorf("it is recorded as begun: %v", begun)
				}
			})
		}
	}
}

func TestARefusedAttemptBlocksNoOther(t *testing.T) {
	j := open(t, ":memory:")
	first, second := job(1, time.Now().Add(time.Hour)), job(1, time.Now().Add(time.Hour))
	second.Attempt = 2
	_, err := j.Refuse(t.Context(), first, writ.Digest{}, 1, func(*journal.Entry) *writ.Result {
		return &writ.Result{JobKey: first.JobKey, Error: writ.Errorf(writ.CodeRunCancelled, "before it began")}
	})
	must(t, err)
	if past, err := j.Start(t.Context(), second, writ.Digest{}, 1, true); err != nil || past != nil {
		t.Errorf("the second attempt is held up by %+v, %v", past, err)
	}
}

func TestClockAheadPrunesNothing(t *testing.T) {
	j := open(t, ":memory:")
	now := time.Now()
	_, err := j.Start(t.Context(), job(1, now), writ.Digest{}, 1, true)
	must(t, err)
	must(t, j.Prune(t.Context(), now.Add(20*365*24*time.Hour)))
	if entry, err := j.Find(t.Context(), job(1, now).JobKey); entry == nil || err != nil {
		t.Errorf("the job is forgotten, and would be done again: %v, %v", entry, err)
	}
}

func TestUseIsRoundedToTheNearestSecond(t *testing.T) {
	j := open(t, ":memory:")
	use := journal.Use{
		Resource: writ.ResourceID{Project: "p", Kind: writ.KindVolume, Name: "data"}, UID: "u", Hour: time.Unix(0, 0).UTC(),
		CPU: 50*time.Second - 200*time.Microsecond, Memory: 1400 * time.Millisecond, Disk: 1600 * time.Millisecond,
	}
	must(t, j.Usage.Add(t.Context(), []journal.Use{use}, nil))
	told, _, err := j.Usage.Unacknowledged(t.Context(), 1)
	must(t, err)
	if want := (writ.Used{CPUSeconds: 50, MemoryMiBSeconds: 1, DiskGiBSeconds: 2}); len(told) != 1 || told[0].Used != want {
		t.Errorf("reported usage = %+v, want %+v", told, want)
	}
}
