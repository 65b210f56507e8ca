package evaluator_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"writ"
	"writ/scripts"
	"writ/scripts/evaluator"
)

// A child that has lost a run gets its whole journal, even if all calls failed with the longest errors.
func TestJournalOfFailedCallsFitsIntoAFrame(t *testing.T) {
	if testing.Short() {
		t.Skip("it evaluates 10,000 calls")
	}
	text := fmt.Sprintf("node := import(%q); for i := 0; i < %d; i++ { node.ping().err }", "node", scripts.MaxCalls)
	in := of("failing", 0)
	in.MaxCalls = scripts.MaxCalls
	pool := newPool(t, 1)
	var journal []scripts.Entry
	for len(journal) < 2 {
		o, err := pool.Pass(t.Context(), bundle(text), in, journal)
		if err != nil || len(o.Calls) != 1 {
			t.Fatalf("%s %+v %v", o.Status, o.Failure, err)
		}
		journal = append(journal, failed(o.Calls[0], 4<<10, 4<<10))
	}
	for seq := len(journal) + 1; seq < scripts.MaxCalls; seq++ {
		e := journal[1]
		if e.Seq = seq; seq > scripts.MaxOpenCalls {
			e.Error = failed(scripts.NewCall{}, 1280, 256).Error
		}
		journal = append(journal, e)
	}
	o, err := pool.Pass(t.Context(), bundle(text), in, journal)
	if err != nil || len(o.Calls) != 1 {
		t.Errorf("the pass after %d failed calls is %s %+v %v", len(journal), o.Status, o.Failure, err)
	}
}

// failed returns an entry whose error has a message and a hint of these lengths.
func failed(c scripts.NewCall, message, hint int) scripts.Entry {
	return scripts.Entry{Seq: c.Seq, Hash: c.Hash, State: scripts.EntryFailed, Error: &writ.Error{
		Code: writ.CodeInjectedFinal, Message: strings.Repeat("m", message), Hint: strings.Repeat("h", hint),
	}}
}

// The pool holds nothing of a caller between two passes of a run, besides the inputs and the journal.
func TestPoolDropsTheReaderOfEarlierEntries(t *testing.T) {
	pool, other := newPool(t, 1), newPool(t, 1)
	r, held := readerOf(t, other, new([1 << 20]byte))
	r.pass(t.Context(), t, pool)
	r.pass(t.Context(), t, pool) // the child has the journal now
	r.inputs.Earlier = nil
	for range 100 {
		if runtime.GC(); held.Value() == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the pool holds the function that reads earlier entries")
	runtime.KeepAlive(pool)
}

// readerOf returns a run whose function that reads earlier entries holds big.
func readerOf(t *testing.T, other *evaluator.Pool, big *[1 << 20]byte) (*longRun, weak.Pointer[[1 << 20]byte]) {
	return newLongRun(t, other, "long", 0, func() { big[0]++ }), weak.Make(big)
}

// A pass that waits for its journal waits for no child, so no child is ended for it.
func TestReadersOfJournalsDoNotCrowdChildren(t *testing.T) {
	pool, other := newPool(t, 2), newPool(t, 1)
	start, proceed := make(chan bool, 2), make(chan bool)
	read := func() { start <- true; <-proceed }
	var group sync.WaitGroup
	for i := range 2 {
		r := newLongRun(t, other, "long", i, read)
		group.Go(func() { r.pass(t.Context(), t, pool) })
		if i == 0 {
			<-start
		}
	}
	for pool.Waiting() == 0 || pool.Busy() > 0 {
		runtime.Gosched()
	}
	if pool.Crowded() {
		t.Error("the pool reports that work waits for a child")
	}
	close(proceed)
	group.Wait()
}

// The runs of a project read their journals in the order in which they began to wait.
func TestJournalsOfAProjectAreReadInOrder(t *testing.T) {
	pool, other := newPool(t, 2), newPool(t, 1)
	start, proceed := make(chan bool), make(chan bool)
	var order []int
	var group sync.WaitGroup
	for i := range 4 {
		r := newLongRun(t, other, "long", i, func() {
			if order = append(order, i); i == 0 {
				start <- true
				<-proceed
			}
		})
		group.Go(func() { r.pass(t.Context(), t, pool) })
		if i == 0 {
			<-start
		}
		for pool.Waiting() < i || pool.Busy() > 0 {
			runtime.Gosched()
		}
	}
	close(proceed)
	group.Wait()
	if !slices.IsSorted(order) {
		t.Errorf("the journals were read in the order %v", order)
	}
}

// A child keeps a run whose results take much memory, so that each pass does not begin at the start of the script.
func TestLongRunWithLargeResultsStaysInItsChild(t *testing.T) {
	const text = `node := import("node"); for i := 0; i < 2000; i++ {}; for i := 0; i < 20; i++ { node.facts().err }`
	list := make([]any, 20_000)
	for i := range list {
		list[i] = []any{true}
	}
	pool, in := newPool(t, 1), of("large", 0)
	var journal []scripts.Entry
	read := 0
	for seq := 1; seq < 20; seq++ {
		if in.Ended = len(journal); seq > 15 {
			in.First = 15
			in.Earlier = func(context.Context) ([]scripts.Entry, error) {
				read++
				return slices.Clone(journal[:15]), nil
			}
		}
		o, err := pool.Pass(t.Context(), bundle(text), in, journal[in.First:])
		if err != nil || len(o.Calls) != 1 {
			t.Fatalf("%s %+v %v", o.Status, o.Failure, err)
		}
		e := succeeded(o.Calls[0])
		e.Values = map[string]any{"list": list}
		journal = append(journal, e)
	}
	if read > 1 {
		t.Errorf("its first entries were read %d times", read)
	}
}
