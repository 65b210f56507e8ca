package watch

import "time"

// maxListened limits the listening time that one scan counts. A longer pause means that the watch was blocked, and
// possibly the collector too.
const maxListened = 2 * every

// listening measures the time in which the supervisor could receive beats.
type listening struct {
	rounds int64     // rounds of the collector at its last progress
	heard  time.Time // last progress of the collector, by the monotonic clock
}

// count returns the part of the time since the last scan that counts as silence of nodes. The queue must have worked,
// and the collector must have handled the messages that arrived. The time does not count while the queue is
// unreachable, the journal blocks the collector, or the supervisor is suspended.
func (l *listening) count(at time.Time, rounds int64, queueWorks bool) time.Duration {
	passed := min(at.Sub(l.heard), maxListened)
	switch {
	case !queueWorks:
		passed = 0
	case rounds == l.rounds:
		return 0 // the time is counted after the next round of the collector
	}
	l.rounds, l.heard = rounds, at
	return passed
}
