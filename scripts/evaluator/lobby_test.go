package evaluator_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"writ"
	"writ/scripts"
	"writ/scripts/evaluator"
)

// passed is the result of a pass.
type passed struct {
	text string
	scripts.Outcome
	err error
}

// crowd queues passes of scripts, each of its own run, then releases them together and returns their results.
func crowd(t *testing.T, pool *evaluator.Pool, ctx func(text string) context.Context, texts ...string) []passed {
	t.Helper()
	release := pool.Hold()
	all := make([]passed, len(texts))
	var group sync.WaitGroup
	for i, text := range texts {
		inputs := everything
		inputs.Run = writ.RunID(fmt.Sprint(i))
		group.Go(func() {
			o, err := pool.Pass(ctx(text), bundle(text), inputs, nil)
			all[i] = passed{text, o, err}
		})
		for pool.Waiting() <= i { // in order
			runtime.Gosched()
		}
	}
	release()
	group.Wait()
	if n := pool.Busy(); n != 0 {
		t.Errorf("%d busy children, want none", n)
	}
	return all
}

func always(t *testing.T) func(string) context.Context {
	return func(string) context.Context { return t.Context() }
}

func repeated(text string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = text
	}
	return all
}

// Promise: Speed and storage: Passes that wait for an evaluator child share it in rounds of about 10 ms, and if the
// child ends, only the responsible pass fails.
// How: The admission queue remembers the cost of programs; after a death each pass runs alone.
// Also: TestRoundIsShort, TestSlowProgramDelaysNoOther, TestDeadChildCostsOnePassOfItsRound,
// TestPassesOutliveTheirLeader.
func TestWaitingPassesShareARound(t *testing.T) {
	together := make(map[int]int) // passes by the size of their round
	for _, one := range crowd(t, newPoolOf(t, "liar"), always(t), repeated("// count", 40)...) {
		if one.err != nil {
			t.Fatal(one.err)
		}
		n, _ := strconv.Atoi(one.Logs[0])
		together[n]++
	}
	if together[5] != 5 || together[16] != 32 || together[3] != 3 {
		t.Errorf("passes by size of their group: %v, want 5 of an unknown program, 32 of 16 and 3 of 3", together)
	}
}

// TestRoundIsShort queues passes of programs that take some milliseconds together with others.
func TestRoundIsShort(t *testing.T) {
	pool := newPoolOf(t, "liar")
	const some = "// say it takes some time."
	crowd(t, pool, always(t), some, "// count")
	for _, one := range crowd(t, pool, always(t), append(repeated(some, 6), "// count")...) {
		if one.err != nil {
			t.Fatal(one.err)
		}
		if want := "3"; one.text == "// count" && one.Logs[0] != want {
			t.Errorf("a short one goes with %s others, itself included, want %s", one.Logs[0], want)
		}
	}
}

// TestSlowProgramDelaysNoOther queues a program that took long together with others.
func TestSlowProgramDelaysNoOther(t *testing.T) {
	pool := newPoolOf(t, "liar")
	const slow = "// say it takes long."
	for round, want := range []string{"5", "1"} {
		for _, one := range crowd(t, pool, always(t), "// count", "// count", slow, "// count", "// count") {
			if one.err != nil {
				t.Fatal(one.err)
			}
			if one.text == slow && one.Logs[0] != want {
				t.Errorf("round %d: the slow one goes with %s others, itself included, want %s", round, one.Logs[0], want)
			}
		}
	}
}

func TestDeadChildCostsOnePassOfItsRound(t *testing.T) {
	for kind, bad := range map[string]string{"moody": "// please die", "liar": "// say nothing."} {
		t.Run(kind, func(t *testing.T) {
			texts := append(repeated("// good", 5), bad)
			for _, one := range crowd(t, newPoolOf(t, kind), always(t), append(texts, repeated("// good", 5)...)...) {
				switch code := writ.CodeOf(one.err); {
				case one.text == bad && code != writ.CodeEvaluatorCrashed:
					t.Errorf("%s: %v", bad, one.err)
				case one.text != bad && (one.err != nil || one.Status != scripts.Completed):
					t.Errorf("one that was with it: %+v, %v", one.Outcome, one.err)
				}
			}
		})
	}
}

// TestPassesOutliveTheirLeader ends the context of a pass that leads a round, while its child hangs.
func TestPassesOutliveTheirLeader(t *testing.T) {
	pool := newMoodyPool(t)
	finish(t, pool, bundle(facts)) // starts the child
	const bad = "// please hang"
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for pool.Busy() == 0 || pool.Waiting() > 0 || len(pool.Idle()) > 0 { // until the child has them
			runtime.Gosched()
		}
		stop()
	}()
	for _, one := range crowd(t, pool, func(text string) context.Context {
		if text == bad {
			return ctx
		}
		return t.Context()
	}, bad, "// good", "// good") {
		switch {
		case one.text == bad && !errors.Is(one.err, context.Canceled):
			t.Errorf("%s: %v, want %v", bad, one.err, context.Canceled)
		case one.text != bad && one.err != nil:
			t.Errorf("one that was with it: %v", one.err)
		}
	}
}

// TestAnsweredLeaderEndsNoOtherPass ends the context of a pass that leads two others, after it and one of
// them have their answers.
func TestAnsweredLeaderEndsNoOtherPass(t *testing.T) {
	pool := newPoolOf(t, "liar")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	release := pool.Hold()
	var group sync.WaitGroup
	for i, one := range []struct {
		text string
		ctx  context.Context
		then func()
	}{
		{"// the leader", ctx, func() {}},
		{"// is answered after the leader", t.Context(), stop},
		{"// say nothing while others wait.", t.Context(), func() {}},
	} {
		inputs := everything
		inputs.Run = writ.RunID(fmt.Sprint(i))
		group.Go(func() {
			if _, err := pool.Pass(one.ctx, bundle(one.text), inputs, nil); err != nil {
				t.Errorf("%s: %v", one.text, err)
			}
			one.then()
		})
		for pool.Waiting() <= i { // in order
			runtime.Gosched()
		}
	}
	release()
	group.Wait()
}

func TestWaitForAChildCanBeCancelled(t *testing.T) {
	pool := newPoolOf(t, "liar")
	release := pool.Hold()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := pool.Pass(ctx, bundle("// count"), everything, nil)
		done <- err
	}()
	for pool.Waiting() == 0 {
		runtime.Gosched()
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Pass = %v, want %v", err, context.Canceled)
	}
	release()
	if n := pool.Busy(); n != 0 {
		t.Errorf("%d children are at work, and nobody waits", n)
	}
}
