package evaluator

import (
	"context"
	"errors"
	"slices"

	"writ"
	"writ/scripts"
	"writ/scripts/interpreter"
)

const (
	// maxSuspended limits the memory of the suspended passes of a child, in bytes. Together with journals, programs and
	// the values of a running pass it stays below the limits of a child.
	maxSuspended = 32 << 20
	// looseSuspended replaces maxSuspended while the child has less than smallHeap bytes in use, including garbage. The
	// estimates are much too high for a long run, which drops most of its results.
	looseSuspended = 256 << 20
	smallHeap      = 80 << 20
	// keptSuspended limits the number of suspended passes of a child.
	keptSuspended = 128
	// leastSuspended is the least fuel of a pass that is suspended. To repeat a pass with less fuel costs less than the
	// memory for another VM.
	leastSuspended = 4_000
	// fewCalls is a number of calls whose repetition takes less time than a coroutine.
	fewCalls = 16
)

// suspendedPasses holds the most recently used suspended passes of a child. A pass of a run continues its suspended
// pass. Without one, it begins at the start of the script. Both ways have equal outcomes, so the parent does not know the
// way.
type suspendedPasses struct {
	most  int              // bytes
	heap  func() uint64    // bytes in use by the process; nil in tests
	list  []*suspendedPass // most recently used first
	bytes int
}

// suspendedPass is the suspended pass of a run, and the data that the next pass must have in common with it.
type suspendedPass struct {
	run     writ.RunID
	version uint64 // of the journal
	program *compiled
	inputs  keptInputs
	pass    *interpreter.Suspended
	bytes   int
}

// take removes and returns the suspended pass of a run, or nil.
func (s *suspendedPasses) take(run writ.RunID) *suspendedPass {
	i := slices.IndexFunc(s.list, func(one *suspendedPass) bool { return one.run == run })
	if i < 0 {
		return nil
	}
	return s.remove(i)
}

// put stores the suspended pass of a run that has no other. It drops passes that exceed a limit, and passes that are
// quick to repeat.
func (s *suspendedPasses) put(one *suspendedPass) {
	one.bytes = one.pass.Memory()
	most := s.most
	if s.bytes+one.bytes > most && s.heap != nil && s.heap() < smallHeap { // the heap is read only if it matters
		most = looseSuspended
	}
	if one.pass.Burned() < leastSuspended || one.bytes > most {
		one.pass.Drop()
		return
	}
	s.list = slices.Insert(s.list, 0, one)
	s.bytes += one.bytes
	for s.bytes > most || len(s.list) > keptSuspended {
		s.remove(len(s.list) - 1).pass.Drop()
	}
}

// dropUnless drops the passes whose program does not fulfil keep.
func (s *suspendedPasses) dropUnless(keep func(*compiled) bool) {
	s.list = slices.DeleteFunc(s.list, func(one *suspendedPass) bool {
		if keep(one.program) {
			return false
		}
		s.bytes -= one.bytes
		one.pass.Drop()
		return true
	})
}

func (s *suspendedPasses) remove(i int) *suspendedPass {
	one := s.list[i]
	s.list = slices.Delete(s.list, i, i+1)
	s.bytes -= one.bytes
	return one
}

// errPart means that a pass needs the whole journal.
var errPart = errors.New("the child has only a part of the journal")

// evaluate runs a pass of a run. It continues the suspended pass `before` if that is possible; before may be nil. The
// journal is the result of the difference d; it is nil if the child has only a part of it. Then a pass that does not
// continue returns the error errPart.
func (s *suspendedPasses) evaluate(
	ctx context.Context, before *suspendedPass, c *compiled, inputs *scripts.Inputs, d *difference,
	journal []scripts.Entry, logged int,
) (scripts.Outcome, error) {
	now := *inputs
	now.Logged = logged
	if before != nil && (before.program != c || before.version != d.Base || !before.inputs.same(inputs)) {
		before.pass.Drop()
		before = nil
	}
	part := journal == nil && d.Count > 0
	if before == nil && part {
		return scripts.Outcome{}, errPart
	}
	if before == nil && (c.failure != nil || len(journal) < fewCalls && c.program.Burned() < leastSuspended) {
		return c.pass(ctx, now, journal)
	}
	var outcome scripts.Outcome
	var next *interpreter.Suspended
	var err error
	resumed := false
	if before != nil {
		outcome, next, resumed, err = before.pass.Resume(ctx, logged, d.Entries, d.Count)
	}
	if !resumed && part {
		return scripts.Outcome{}, errPart
	}
	if !resumed {
		outcome, next, err = c.program.Begin(ctx, now, journal)
	}
	if next != nil {
		s.put(&suspendedPass{run: inputs.Run, version: d.Version, program: c, inputs: keptInputs{inputs}, pass: next})
	}
	return outcome, err
}
