package evaluator_test

import (
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"
)

// The pool holds nothing of a caller between two passes of a run, besides the inputs and the journal.
func TestPoolDropsTheReaderOfEarlierEntries(t *testing.T) {
	pool, other := newPool(t, 1), newPool(t, 1)
	held, read := readerOf(new([1 << 20]byte))
	r := newLongRun(t, other, "long", 0, read)
	r.pass(t.Context(), t, pool)
	r.pass(t.Context(), t, pool) // the child has the journal now
	r.inputs.Earlier, read = nil, nil
	for range 100 {
		if runtime.GC(); held.Value() == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the pool holds the function that reads earlier entries")
	runtime.KeepAlive(pool)
}

func readerOf(big *[1 << 20]byte) (weak.Pointer[[1 << 20]byte], func()) {
	return weak.Make(big), func() { big[0]++ }
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
