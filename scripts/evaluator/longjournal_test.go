package evaluator_test

import (
	"runtime"
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
