package interpreter

import "github.com/d5/tengo/v2"

// callReads records which call results a pass has read. A replay reads most results of a run, so a read costs no map
// access and no text.
type callReads struct {
	read    []bool // by seq
	handled []bool // by seq: .err was read
	last    spot   // where the script last read a result for the first time
}

// newCallReads returns empty records for the given number of calls.
func newCallReads(calls int) callReads {
	return callReads{read: make([]bool, calls+1), handled: make([]bool, calls+1)}
}

// add records a read of a result. Only the first read of a result sets last, because an earlier pass may have ended
// there.
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
