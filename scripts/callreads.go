package scripts

import "github.com/d5/tengo/v2"

// callReads records which results of calls a pass has read. A replay reads most results of a run, so this takes no map
// and no text.
type callReads struct {
	read    []bool // by seq
	handled []bool // by seq: .err was read
	last    spot   // where a result was last read for the first time
}

// newCallReads returns the reads of a run with the given number of calls: none.
func newCallReads(calls int) callReads {
	return callReads{read: make([]bool, calls+1), handled: make([]bool, calls+1)}
}

// add records a read of a result. An earlier pass may have ended at a first read.
func (r *callReads) add(seq int, vm *tengo.VM) {
	if !r.read[seq] {
		r.read[seq] = true
		r.last = here(vm)
	}
}

// handledCalls returns the calls whose .err was read, ascending.
func (r *callReads) handledCalls() (seqs []int) {
	for seq, handled := range r.handled {
		if handled {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}
