package evaluator

import (
	"slices"

	"writ"
)

// idleChildren are the children without work, the most recently used last.
type idleChildren []*child

// has reports whether a child for quick passes has a program compiled.
func (idle idleChildren) has(program writ.Digest) bool {
	return slices.ContainsFunc(idle, func(c *child) bool { return !c.slow && c.programs.has(program) })
}

// hasJournal reports whether a child for quick passes has the journal of a run.
func (idle idleChildren) hasJournal(run writ.RunID) bool {
	return slices.ContainsFunc(idle, func(c *child) bool { return !c.slow && c.hasJournal(run) })
}

// onlySlowHasJournal reports whether a child for slow passes has the journal of a run, and no other child.
func (idle idleChildren) onlySlowHasJournal(run writ.RunID) bool {
	return !idle.hasJournal(run) && slices.ContainsFunc(idle, func(c *child) bool { return c.hasJournal(run) })
}

// take removes the child that fits a waiter best, and returns it: a child with the run's journal, else a child with the
// program, else the most recently used child. It returns nil if the caller should start a new child. If the program is
// expensive to compile (heavy), a child with the program precedes a child with the journal.
func (idle *idleChildren) take(w *waiter, heavy, slow bool) *child {
	best, most := -1, -1
	for i, c := range slices.Backward(*idle) {
		if c.slow != slow {
			continue
		}
		if fit := c.fit(w, heavy); fit > most {
			best, most = i, fit
		}
	}
	if best < 0 {
		return nil
	}
	c := (*idle)[best]
	*idle = slices.Delete(*idle, best, best+1)
	return c
}
