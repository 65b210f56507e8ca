package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/fair"
	"writ/internal/testenv"
	"writ/supervisor/journal"
)

func TestRunsThatCannotAdvanceAreAFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(testenv.Log)
		steps := newSteps(func(context.Context, writ.RunID, mail) error { return errors.New("nobody knows why") }, log.Logger())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- steps.run(ctx) }()
		for i := range 1000 {
			steps.post(writ.RunID(fmt.Sprint("r", i)), mail{})
		}
		synctest.Wait()
		if lines := log.Lines("advance a run"); lines != 1 {
			t.Errorf("a thousand runs make %d lines", lines)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What waits for a step is taken in the order in which it came: a cancel does not get past a result that was there before it.
func TestACancelComesAfterTheResultsBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		first := make(chan struct{})
		steps := newSteps(func(_ context.Context, _ writ.RunID, m mail) error {
			if len(order) == 0 {
				<-first
			}
			order = append(order, fmt.Sprintf("%d results, cancel %v", len(m.results), m.stop != nil))
			return nil
		}, slog.New(slog.DiscardHandler))
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- steps.run(ctx) }()
		steps.post("r", mail{})
		synctest.Wait()
		result := func(seq int) arrival {
			return arrival{result: writ.Result{JobKey: writ.JobKey{Run: "r", Seq: seq, Attempt: 1}}}
		}
		steps.postResult(result(1))
		answered := make(chan error, 1)
		steps.post("r", mail{stop: new(stop), done: answered})
		steps.postResult(result(2))
		close(first)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		want := []string{"0 results, cancel false", "1 results, cancel false", "0 results, cancel true", "1 results, cancel false"}
		if !slices.Equal(order, want) {
			t.Errorf("steps %q, want %q", order, want)
		}
		if !steps.postResult(result(1)) {
			t.Error("a result that was taken still counts as waiting")
		}
		end()
		<-ended
	})
}

func TestAnUnwritableRunKeepsItsOneTimeMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		var got mail
		steps := newSteps(func(_ context.Context, _ writ.RunID, m mail) error {
			if full {
				return errors.New("disk full")
			}
			got = m
			return nil
		}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- steps.run(ctx) }()

		key := writ.JobKey{Run: "r", Seq: 1, Attempt: 1}
		kept := 0
		for range 100 { // as many looks of the watch, and as many times the node sends its result again
			if steps.postResult(arrival{result: writ.Result{JobKey: key}, node: "n"}) {
				kept++
			}
			steps.post("r", mail{overdue: []writ.JobKey{key}, again: []sending{{key, 1}}, lost: []writ.NodeID{"n"}})
			synctest.Wait()
			steps.retry()
			synctest.Wait()
		}
		full = false
		steps.retry()
		synctest.Wait()
		if kept != 1 || len(got.results) != 1 || len(got.overdue) != 1 || len(got.again) != 1 || len(got.lost) != 1 {
			t.Errorf("%d results were kept; the step got %d results, %d overdue, %d again, %d lost; want one of each",
				kept, len(got.results), len(got.overdue), len(got.again), len(got.lost))
		}
		if !steps.postResult(arrival{result: writ.Result{JobKey: key}, node: "n"}) {
			t.Error("a result that was written is not taken again: nobody would acknowledge it")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestALateLookIsNoSilence(t *testing.T) {
	f := &fleet{keys: make(map[string]writ.NodeID), nodes: make(map[writ.NodeID]*member), silence: identity.DefaultSilence}
	f.put(journal.Node{Node: writ.Node{ID: "n"}})
	now := time.Now()
	s := &Supervisor{}
	w := &watcher{s: s, heard: now}
	f.beat(writ.Beat{Node: "n", Sequence: 1}, 1, now, now)
	look := func(after time.Duration, rounds int64, queueWorks bool) {
		t.Helper()
		now = now.Add(after)
		s.rounds.Add(rounds)
		if lost := f.tick(now, now, w.listened(now, queueWorks)); len(lost) > 0 {
			t.Fatal("the node is lost")
		}
	}
	look(10*time.Minute, 1, true) // everything stood still
	look(time.Second, 1, true)
	look(10*time.Minute, 1, false) // the queue was away
	for range 100 {
		look(time.Second, 0, true) // the collector is kept waiting
	}
	look(time.Second, 1, true)
	if got, want := f.nodes["n"].silent, 5*time.Second; got != want {
		t.Errorf("%s of silence are counted, want %s", got, want)
	}
	f.beat(writ.Beat{Node: "n", Sequence: 2}, 1, now, now)
	for range int(f.silence.Lost/time.Second) - 1 {
		look(time.Second, 1, true)
	}
	now = now.Add(time.Second)
	s.rounds.Add(1)
	if lost := f.tick(now, now, w.listened(now, true)); len(lost) != 1 {
		t.Error("a node that was silent for a minute is not lost")
	}
}

// TestAProjectHasFewStepsBesideOthers lets many runs of one project ask for steps while another project has one, while a step of its own waits until
// the project may do more, and after that.
func TestAProjectHasFewStepsBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Int32
		other := make(chan struct{})
		steps := newSteps(func(ctx context.Context, run writ.RunID, _ mail) error {
			if run == "other" {
				<-other
				return nil
			}
			busy.Add(1)
			<-ctx.Done()
			return nil
		}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- steps.run(ctx) }()
		steps.begin("other", "quiet", func() {})
		synctest.Wait()
		for i := range 2 * maxSteps {
			steps.begin(writ.RunID(fmt.Sprint("run", i)), "busy", func() {})
		}
		synctest.Wait()
		if got := busy.Load(); got != maxStepsBeside {
			t.Errorf("beside another project it has %d steps, want %d", got, maxStepsBeside)
		}
		goesOn := steps.slowed("busy")
		close(other)
		synctest.Wait()
		if got := busy.Load(); got != maxStepsBeside {
			t.Errorf("while one of them waits it has %d steps, want %d", got, maxStepsBeside)
		}
		goesOn()
		synctest.Wait()
		if got, want := int(busy.Load()), fair.Most(maxSteps); got != want {
			t.Errorf("alone it has %d steps, want %d", got, want)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestLongStepsOfAProjectLeaveSlotsForOthers lets all steps of one project wait, as they do for the evaluator.
func TestLongStepsOfAProjectLeaveSlotsForOthers(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "looked up": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const many = 4 * maxSteps
				var waiting, served atomic.Int32
				steps := newSteps(func(ctx context.Context, run writ.RunID, _ mail) error {
					if strings.HasPrefix(string(run), "slow") {
						waiting.Add(1)
						<-ctx.Done()
						return nil
					}
					served.Add(1)
					return nil
				}, slog.New(slog.DiscardHandler))
				steps.owners = func(runs []writ.RunID) (map[writ.RunID]writ.ProjectID, error) {
					owners := map[writ.RunID]writ.ProjectID{}
					for _, run := range runs {
						owners[run] = writ.ProjectID(run[:4])
					}
					return owners, nil
				}
				post := func(kind string, i int) {
					id := writ.RunID(fmt.Sprint(kind, i))
					if told {
						steps.begin(id, writ.ProjectID(kind), func() {})
					} else {
						steps.post(id, mail{})
					}
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- steps.run(ctx) }()
				for i := range many {
					post("slow", i)
				}
				synctest.Wait()
				for i := range many {
					post("work", i)
				}
				synctest.Wait()
				if got, most := int(waiting.Load()), fair.Most(maxSteps); got != most {
					t.Errorf("%d steps of the slow project are under way, want %d", got, most)
				}
				if got := served.Load(); got != many {
					t.Errorf("%d steps of the other project were served, want %d", got, many)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// However much comes in for a run at once, it is written in parts, and whoever else has a result comes between them.
func TestAThousandResultsOfAProjectAreWrittenInParts(t *testing.T) {
	steps := newSteps(func(context.Context, writ.RunID, mail) error { return nil }, slog.New(slog.DiscardHandler))
	steps.begin("many", "hostile", func() {})
	first, _ := steps.next()
	const all = 1000
	for i := range all {
		steps.postResult(arrival{result: writ.Result{JobKey: writ.JobKey{Run: "many", Seq: i, Attempt: 1}}, node: "n"})
	}
	steps.post("many", mail{lost: []writ.NodeID{"n"}})
	steps.serve(t.Context(), first)
	steps.begin("one", "works", func() {})
	steps.postResult(arrival{result: writ.Result{JobKey: writ.JobKey{Run: "one", Seq: 1, Attempt: 1}}, node: "n"})

	next := 0
	for step := 0; next < all; step++ {
		var told mail
		steps.take = func(_ context.Context, _ writ.RunID, m mail) error {
			told = m
			return nil
		}
		d, ok := steps.next()
		if !ok {
			t.Fatalf("after %d of %d results there is no step", next, all)
		}
		steps.serve(t.Context(), d)
		if d.run == "one" {
			if step > 1 {
				t.Errorf("the result of another project came in turn %d", step)
			}
			continue
		}
		if len(told.results) > maxStepResults {
			t.Errorf("a step has %d results", len(told.results))
		}
		for _, a := range told.results {
			if a.result.Seq != next {
				t.Fatalf("result %d came instead of %d", a.result.Seq, next)
			}
			next++
		}
		if lost := len(told.lost) > 0; lost != (next == all) {
			t.Errorf("after %d results it is told that the node was lost: %t", next, lost)
		}
	}
	if len(steps.boxes) > 0 {
		t.Errorf("something is left: %v", steps.boxes)
	}
}

// TestResultsOfUnknownRunsDelayNoOtherNode lets a node send results of any number of runs that do not exist, each of which is looked up:
// results of another node came behind all of them.
func TestResultsOfUnknownRunsDelayNoOtherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 4 * maxSteps
		var served, lookups atomic.Int32
		ctx, stop := context.WithCancel(t.Context())
		steps := newSteps(func(_ context.Context, run writ.RunID, _ mail) error {
			if strings.HasPrefix(string(run), "work") {
				served.Add(1)
			}
			return nil
		}, slog.New(slog.DiscardHandler))
		steps.owners = func(runs []writ.RunID) (map[writ.RunID]writ.ProjectID, error) {
			owners := map[writ.RunID]writ.ProjectID{}
			for _, run := range runs {
				if strings.HasPrefix(string(run), "work") {
					owners[run] = "project"
				}
			}
			if len(owners) == 0 {
				lookups.Add(int32(len(runs)))
				<-ctx.Done()
			}
			return owners, nil
		}
		steps.drop = func([]arrival) {}
		post := func(node writ.NodeID, kind string, i int) bool {
			key := writ.JobKey{Run: writ.RunID(fmt.Sprint(kind, i)), Seq: 1, Attempt: 1}
			return steps.postResult(arrival{result: writ.Result{JobKey: key}, node: node})
		}
		for i := range maxSpokenOf { // all of them before the first is looked up, so that this finds as many as it may take
			if !post("hostile", "none", i) {
				t.Fatalf("result %d was dropped", i)
			}
		}
		ended := make(chan error)
		go func() { ended <- steps.run(ctx) }()
		synctest.Wait()
		for i := range many {
			if !post("honest", "work", i) {
				t.Fatalf("result %d of the honest node was dropped", i)
			}
		}
		synctest.Wait()
		if got := served.Load(); got != many {
			t.Errorf("%d steps for the honest node were served, want %d", got, many)
		}
		if got := lookups.Load(); got != maxUnknown {
			t.Errorf("%d runs are looked up at a time for one node, want %d", got, maxUnknown)
		}
		for i := range 2 * maxUnknown {
			if kept := post("hostile", "more", i); kept != (i < maxUnknown) {
				t.Errorf("result %d beyond those that may wait: kept is %v", i, kept)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Runs that a node names and that there are not cost no step each; what comes in for one of them while it is looked up, as it begins, is kept.
func TestUnknownRunsGetNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []writ.RunID
		steps := newSteps(func(_ context.Context, run writ.RunID, _ mail) error {
			took = append(took, run)
			return nil
		}, slog.New(slog.DiscardHandler))
		exists := map[writ.RunID]writ.ProjectID{}
		questions, dropped := 0, 0
		steps.owners = func(runs []writ.RunID) (map[writ.RunID]writ.ProjectID, error) {
			if questions++; questions == 1 { // it is accepted while somebody looks for it
				steps.begin("late", "project", func() {})
				defer func() { exists["late"] = "project" }()
			}
			return maps.Clone(exists), nil
		}
		steps.drop = func(results []arrival) { dropped += len(results) }
		post := func(run writ.RunID) {
			steps.postResult(arrival{result: writ.Result{JobKey: writ.JobKey{Run: run, Seq: 1, Attempt: 1}}, node: "n"})
		}
		post("late")
		for i := range 3*maxUnknown - 1 {
			post(writ.RunID(fmt.Sprint("none", i)))
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- steps.run(ctx) }()
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !slices.Equal(took, []writ.RunID{"late"}) || dropped != 3*maxUnknown || questions > 4 || len(steps.boxes) > 0 {
			t.Errorf("steps of %q, %d results dropped of %d, %d questions, left: %v", took, dropped, 3*maxUnknown, questions, steps.boxes)
		}
	})
}
