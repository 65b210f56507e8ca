package redisqueue

import (
	"time"

	"writ/runner/queue"
)

// Limits of reading from one node per second, and the burst after a quiet time. Further messages stay in the node's
// stream. This delays only the messages of that node. If the node keeps sending, its stream exceeds the node's budget.
const (
	readMessages = 5000
	readBytes    = 16 << 20
	readAtOnce   = 4 // seconds
)

// meter is a token bucket for reading a stream. A nil meter does not limit reading.
type meter struct {
	perSecond       float64 // messages
	messages, bytes float64
	last            time.Time
}

// meter returns the meter of a stream. The caller must hold mu.
func (ms *messenger) meter(s queue.Stream) *meter {
	m := ms.meters[s]
	if m == nil {
		m = &meter{perSecond: ms.readMessages, messages: ms.readMessages * readAtOnce, bytes: readBytes * readAtOnce}
		ms.meters[s] = m
	}
	return m
}

// fill adds the tokens for the time since the last call.
func (m *meter) fill(now time.Time) {
	passed := now.Sub(m.last).Seconds()
	if m.last.IsZero() {
		passed = 0
	}
	m.messages = min(m.messages+passed*m.perSecond, m.perSecond*readAtOnce)
	m.bytes = min(m.bytes+passed*readBytes, readBytes*readAtOnce)
	m.last = now
}

// empty reports whether reading must pause.
func (m *meter) empty(now time.Time) bool {
	if m == nil {
		return false
	}
	m.fill(now)
	return m.messages <= 0 || m.bytes <= 0
}

// take subtracts the amount read and reports whether the meter has just become empty.
func (m *meter) take(now time.Time, messages, bytes int64) bool {
	m.fill(now)
	before := m.messages > 0 && m.bytes > 0
	m.messages -= float64(messages)
	m.bytes -= float64(bytes)
	return before && (m.messages <= 0 || m.bytes <= 0)
}
