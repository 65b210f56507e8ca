package interpreter

import (
	"context"
	"iter"
	"slices"

	"writ"
	"writ/scripts"
)

// Suspended is a pass that waits for the result of a call. Its VM stays at the instruction that reads the result. The
// next pass of the run can continue there instead of repeating all earlier calls. Its outcome equals the outcome of
// Program.Pass with the whole journal.
//
// A Suspended is not safe for concurrent use. After Resume or Drop it must not be used again, except for the Suspended
// that Resume returns.
type Suspended struct {
	program *Program
	machine *machine
	pass    *pass
	next    func() (seq int, waits bool) // runs the VM until its next wait or its end
	stop    func()                       // ends the VM
	seq     int                          // the call that the VM waits for
	err     error                        // of the pass, after its end
}

// waiting connects a pass with its Suspended. The methods of a nil waiting have no effect.
type waiting struct {
	yield func(seq int) bool // suspends the VM until the call has ended, or returns false to end the pass
	open  map[int]openCall   // calls without a result, by seq
	known int                // number of calls that the journal of the last pass has
}

// openCall is a call without a result.
type openCall struct {
	handle *handle
	hash   writ.Digest
}

// add adds a call without a result.
func (w *waiting) add(h *handle, hash writ.Digest) {
	if w != nil {
		w.open[h.seq] = openCall{h, hash}
	}
}

// until waits for the result of a call. It returns false if the pass ends instead.
func (w *waiting) until(seq int) bool { return w != nil && w.yield(seq) }

// Begin runs a pass like Pass. If the outcome is Waiting, the suspended pass is returned, too: the caller must either
// continue or drop it.
func (p *Program) Begin(
	ctx context.Context, inputs scripts.Inputs, journal []scripts.Entry,
) (scripts.Outcome, *Suspended, error) {
	run := p.newPass(inputs)
	run.waiting = &waiting{open: make(map[int]openCall), known: len(journal)}
	if err := run.read(journal); err != nil {
		return run.outcome(err), nil, context.Cause(ctx)
	}
	s := &Suspended{program: p, machine: p.machine(run), pass: run}
	s.next, s.stop = iter.Pull(func(yield func(int) bool) {
		run.waiting.yield = yield
		s.err = run.run()
	})
	return s.advance(ctx)
}

// Resume continues the pass as the next pass of its run. logged is the number of log lines from earlier passes. changed
// are the entries that differ from the journal of the last pass, in order, and count is the number of entries of the
// new journal. All other inputs must equal the inputs of the last pass.
//
// If ok is false, the suspended pass cannot have the new journal, and is dropped: the caller must run a whole pass.
// The other results are as for Begin.
func (s *Suspended) Resume(
	ctx context.Context, logged int, changed []scripts.Entry, count int,
) (o scripts.Outcome, next *Suspended, ok bool, err error) {
	if !s.skipLogged(logged) || !s.apply(changed, count) {
		s.Drop()
		return scripts.Outcome{}, nil, false, nil
	}
	o, next, err = s.advance(ctx)
	return o, next, true, err
}

// advance runs the VM until the pass waits for a call without a result, or ends.
func (s *Suspended) advance(ctx context.Context) (scripts.Outcome, *Suspended, error) {
	run := s.pass
	run.calls = nil
	waits := true
	if _, open := run.waiting.open[s.seq]; !open {
		inTime := context.AfterFunc(ctx, run.vm.Abort)
		s.seq, waits = s.next()
		if !inTime() { // the VM was or will be aborted
			s.stop()
			return scripts.Outcome{}, nil, context.Cause(ctx)
		}
	}
	if !waits {
		s.program.release(s.machine, run, true)
		return run.outcome(s.err), nil, nil
	}
	o := run.outcome(&suspension{seq: s.seq})
	if o.Status != scripts.Waiting {
		s.Drop()
		return o, nil, nil
	}
	run.entries, run.sizes = nil, nil // the handles have their results
	return o, s, nil
}

// Burned returns the fuel that a whole pass to the same place burns.
func (s *Suspended) Burned() int64 { return s.pass.meter.burned() }

// Memory estimates the memory of the suspended pass in bytes. The estimate is not too low.
func (s *Suspended) Memory() int {
	const (
		vm     = 112 << 10 // a VM, its goroutine and the state of the pass
		object = 16        // a place for an object
		// A unit of fuel stands for 6 bytes that may stay in memory. All fuel takes at most a third of a child's memory.
		unit = 9
	)
	return vm + object*(len(s.machine.constants)+len(s.machine.globals)) + unit*int(s.Burned())
}

// Drop ends the pass.
func (s *Suspended) Drop() {
	s.stop()
	s.program.release(s.machine, s.pass, true)
}

// skipLogged drops the log lines that earlier passes have returned. It returns false if the pass lacks lines.
func (s *Suspended) skipLogged(logged int) bool {
	run := s.pass
	skip := logged - run.inputs.Logged
	if skip < 0 {
		return false
	}
	if run.inputs.Logged = logged; skip < len(run.logs) {
		run.logs = slices.Clone(run.logs[skip:]) // the earlier outcome has the old list
	} else {
		run.logs = nil
	}
	return true
}

// apply gives results to the calls. It returns false unless the new journal has exactly the calls of the pass, and all
// earlier results.
func (s *Suspended) apply(changed []scripts.Entry, count int) bool {
	run := s.pass
	for i := range changed {
		e := &changed[i]
		call, open := run.waiting.open[e.Seq]
		if !open || call.hash != e.Hash {
			return false
		}
		if e.Seq == run.waiting.known+1 {
			run.waiting.known++
		}
		if call.handle.result.set(e, scripts.EncodedSize(e.Values)); call.handle.result.open() {
			continue
		}
		run.bytes += call.handle.result.size
		delete(run.waiting.open, e.Seq)
	}
	return count == run.seq && run.waiting.known == run.seq && run.bytes <= scripts.MaxJournal
}
