package mailbox

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

	"writ"
	"writ/internal/fair"
	"writ/internal/test/testenv"
	"writ/supervisor/mail"
)

func TestFailedStepsAreLoggedOncePerCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(testenv.Log)
		steps := New(func(context.Context, writ.RunID, mail.Mail) error { return errors.New("nobody knows why") }, log.Logger())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- steps.Run(ctx) }()
		for i := range 1000 {
			steps.Post(writ.RunID(fmt.Sprint("r", i)), mail.Mail{})
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

// Mail is applied in the order of its arrival.
func TestCancelWaitsForEarlierResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		first := make(chan struct{})
		steps := New(func(_ context.Context, _ writ.RunID, m mail.Mail) error {
			if len(order) == 0 {
				<-first
			}
			order = append(order, fmt.Sprintf("%d results, cancel %v", len(m.Results), m.Stop != nil))
			return nil
		}, slog.New(slog.DiscardHandler))
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- steps.Run(ctx) }()
		steps.Post("r", mail.Mail{})
		synctest.Wait()
		result := func(seq int) mail.Arrival {
			return mail.Arrival{Result: writ.Result{JobKey: writ.JobKey{Run: "r", Seq: seq, Attempt: 1}}}
		}
		steps.PostResult(result(1))
		answered := make(chan error, 1)
		steps.Post("r", mail.Mail{Stop: new(mail.Stop), Done: answered})
		steps.PostResult(result(2))
		close(first)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		want := []string{"0 results, cancel false", "1 results, cancel false", "0 results, cancel true", "1 results, cancel false"}
		if !slices.Equal(order, want) {
			t.Errorf("steps %q, want %q", order, want)
		}
		if !steps.PostResult(result(1)) {
			t.Error("a result that was taken still counts as waiting")
		}
		end()
		<-ended
	})
}

func TestStalledRunKeepsItsMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		var got mail.Mail
		steps := New(func(_ context.Context, _ writ.RunID, m mail.Mail) error {
			if full {
				return errors.New("disk full")
			}
			got = m
			return nil
		}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- steps.Run(ctx) }()

		key := writ.JobKey{Run: "r", Seq: 1, Attempt: 1}
		kept := 0
		for range 100 { // 100 scans of the watch, and 100 repeated results of the node
			if steps.PostResult(mail.Arrival{Result: writ.Result{JobKey: key}, Node: "n"}) {
				kept++
			}
			steps.Post("r", mail.Mail{Overdue: []writ.JobKey{key}, Resend: []mail.Delivery{{Key: key, Number: 1}}, LostNodes: []writ.NodeID{"n"}})
			synctest.Wait()
			steps.Retry()
			synctest.Wait()
		}
		full = false
		steps.Retry()
		synctest.Wait()
		if kept != 1 || len(got.Results) != 1 || len(got.Overdue) != 1 || len(got.Resend) != 1 || len(got.LostNodes) != 1 {
			t.Errorf("%d results were kept; the step got %d results, %d overdue, %d again, %d lost; want one of each",
				kept, len(got.Results), len(got.Overdue), len(got.Resend), len(got.LostNodes))
		}
		if !steps.PostResult(mail.Arrival{Result: writ.Result{JobKey: key}, Node: "n"}) {
			t.Error("a written result is rejected, so it would not be acknowledged")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestProjectSharesSteps posts many runs of a project while another project has a step, then while its own step waits
// for a rate limit, and then without either.
func TestProjectSharesSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Int32
		other := make(chan struct{})
		steps := New(func(ctx context.Context, run writ.RunID, _ mail.Mail) error {
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
		go func() { ended <- steps.Run(ctx) }()
		steps.Begin("other", "quiet", func() {})
		synctest.Wait()
		for i := range 2 * maxSteps {
			steps.Begin(writ.RunID(fmt.Sprint("run", i)), "busy", func() {})
		}
		synctest.Wait()
		if got := busy.Load(); got != maxStepsBeside {
			t.Errorf("with another project active it has %d steps, want %d", got, maxStepsBeside)
		}
		goesOn := steps.Slowed("busy")
		close(other)
		synctest.Wait()
		if got := busy.Load(); got != maxStepsBeside {
			t.Errorf("with a waiting step it has %d steps, want %d", got, maxStepsBeside)
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

// TestLongStepsOfAProjectLeaveSlotsForOthers blocks all steps of one project, as a busy evaluator does.
//
// Promise: Limits and shares: Runs of one project that wait for the evaluator leave capacity for runs of other
// projects.
// How: A project may use three quarters of the free steps, and 18 of 128 beside another project; it has one preview
// and one new script in progress.
// Also: TestProjectSharesSteps, TestCapacityIsSharedBetweenProjects, TestTenantCanBeLimitedToOneSlot.
func TestLongStepsOfAProjectLeaveSlotsForOthers(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "looked up": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const many = 4 * maxSteps
				var waiting, served atomic.Int32
				steps := New(func(ctx context.Context, run writ.RunID, _ mail.Mail) error {
					if strings.HasPrefix(string(run), "slow") {
						waiting.Add(1)
						<-ctx.Done()
						return nil
					}
					served.Add(1)
					return nil
				}, slog.New(slog.DiscardHandler))
				steps.Owners = func(runs []writ.RunID) (map[writ.RunID]writ.ProjectID, error) {
					owners := map[writ.RunID]writ.ProjectID{}
					for _, run := range runs {
						owners[run] = writ.ProjectID(run[:4])
					}
					return owners, nil
				}
				post := func(kind string, i int) {
					id := writ.RunID(fmt.Sprint(kind, i))
					if told {
						steps.Begin(id, writ.ProjectID(kind), func() {})
					} else {
						steps.Post(id, mail.Mail{})
					}
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- steps.Run(ctx) }()
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

// The results of a run are applied in parts, and steps of other projects come between them.
//
// Promise: Limits and shares: Input for one run is written in parts of 250 results, so steps of other projects run in
// between.
// How: Steps are bounded and shared by project.
func TestManyResultsAreWrittenInParts(t *testing.T) {
	steps := New(func(context.Context, writ.RunID, mail.Mail) error { return nil }, slog.New(slog.DiscardHandler))
	steps.Begin("many", "hostile", func() {})
	first, _ := steps.next(steps.Owners != nil)
	const all = 1000
	for i := range all {
		steps.PostResult(mail.Arrival{Result: writ.Result{JobKey: writ.JobKey{Run: "many", Seq: i, Attempt: 1}}, Node: "n"})
	}
	steps.Post("many", mail.Mail{LostNodes: []writ.NodeID{"n"}})
	steps.serve(t.Context(), first)
	steps.Begin("one", "works", func() {})
	steps.PostResult(mail.Arrival{Result: writ.Result{JobKey: writ.JobKey{Run: "one", Seq: 1, Attempt: 1}}, Node: "n"})

	next := 0
	for step := 0; next < all; step++ {
		var told mail.Mail
		steps.take = func(_ context.Context, _ writ.RunID, m mail.Mail) error {
			told = m
			return nil
		}
		d, ok := steps.next(steps.Owners != nil)
		if !ok {
			t.Fatalf("no step after %d of %d results", next, all)
		}
		steps.serve(t.Context(), d)
		if d.run == "one" {
			if step > 1 {
				t.Errorf("the result of another project arrived in step %d", step)
			}
			continue
		}
		if len(told.Results) > maxStepResults {
			t.Errorf("a step has %d results", len(told.Results))
		}
		for _, a := range told.Results {
			if a.Result.Seq != next {
				t.Fatalf("got result %d, want %d", a.Result.Seq, next)
			}
			next++
		}
		if lost := len(told.LostNodes) > 0; lost != (next == all) {
			t.Errorf("after %d results: loss of the node delivered: %t", next, lost)
		}
	}
	if len(steps.all) > 0 {
		t.Errorf("something is left: %v", steps.all)
	}
}

// TestResultsOfUnknownRunsDelayNoOtherNode makes a node send results of many unknown runs. Each of them needs a lookup,
// which must not delay the results of another node.
//
// Promise: Nodes and Redis: A node that names many unknown runs delays messages of other nodes by at most four
// lookups.
// How: Each node has its own queue of 10,000 run ids with four concurrent lookups; an honest node repeats a dropped
// id.
func TestResultsOfUnknownRunsDelayNoOtherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 4 * maxSteps
		var served, lookups atomic.Int32
		ctx, stop := context.WithCancel(t.Context())
		steps := New(func(_ context.Context, run writ.RunID, _ mail.Mail) error {
			if strings.HasPrefix(string(run), "work") {
				served.Add(1)
			}
			return nil
		}, slog.New(slog.DiscardHandler))
		steps.Owners = func(runs []writ.RunID) (map[writ.RunID]writ.ProjectID, error) {
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
		steps.Drop = func([]mail.Arrival) {}
		post := func(node writ.NodeID, kind string, i int) bool {
			key := writ.JobKey{Run: writ.RunID(fmt.Sprint(kind, i)), Seq: 1, Attempt: 1}
			return steps.PostResult(mail.Arrival{Result: writ.Result{JobKey: key}, Node: node})
		}
		for i := range maxSpokenOf { // posts all of them before the first lookup, which finds as many as possible
			if !post("hostile", "none", i) {
				t.Fatalf("result %d was dropped", i)
			}
		}
		ended := make(chan error)
		go func() { ended <- steps.Run(ctx) }()
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
				t.Errorf("result %d: kept = %v, want only the results within the limit", i, kept)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Unknown runs that a node names get no step. A run that begins during its lookup keeps its mail.
func TestUnknownRunsGetNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []writ.RunID
		steps := New(func(_ context.Context, run writ.RunID, _ mail.Mail) error {
			took = append(took, run)
			return nil
		}, slog.New(slog.DiscardHandler))
		exists := map[writ.RunID]writ.ProjectID{}
		questions, dropped := 0, 0
		steps.Owners = func(runs []writ.RunID) (map[writ.RunID]writ.ProjectID, error) {
			if questions++; questions == 1 { // the run is accepted during the lookup
				steps.Begin("late", "project", func() {})
				defer func() { exists["late"] = "project" }()
			}
			return maps.Clone(exists), nil
		}
		steps.Drop = func(results []mail.Arrival) { dropped += len(results) }
		post := func(run writ.RunID) {
			steps.PostResult(mail.Arrival{Result: writ.Result{JobKey: writ.JobKey{Run: run, Seq: 1, Attempt: 1}}, Node: "n"})
		}
		post("late")
		for i := range 3*maxUnknown - 1 {
			post(writ.RunID(fmt.Sprint("none", i)))
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- steps.Run(ctx) }()
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !slices.Equal(took, []writ.RunID{"late"}) || dropped != 3*maxUnknown || questions > 4 || len(steps.all) > 0 {
			t.Errorf("steps of %q, %d results dropped of %d, %d questions, left: %v", took, dropped, 3*maxUnknown, questions, steps.all)
		}
	})
}
