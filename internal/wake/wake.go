// Package wake wakes one goroutine that waits for work. It does not carry the work.
package wake

// Signal wakes the goroutine that receives from it. Create it with New.
type Signal chan struct{}

// New returns a signal that was not raised.
func New() Signal { return make(Signal, 1) }

// Raise wakes the receiver, or its next receive if it is busy. Signals that were not received yet count as one. Raise
// never blocks.
func (s Signal) Raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}
