package redisqueue

import (
	"time"

	"writ/runner/queue"
)

// What is read of one node in a second, and at once after it was quiet. What is more stays in its stream until there is room for it again: it costs
// that node time, and if it goes on sending, its stream is found to be over budget.
const (
	readMessages = 5000
	readBytes    = 16 << 20
	readAtOnce   = 4 // seconds
)

// meter is what may still be read of a stream: it fills with time. A nil one is full.
type meter struct {
	perSecond       float64 // messages
	messages, bytes float64
	last            time.Time
}

// meter returns that of a stream. The caller holds mu.
func (q *Queue) meter(s queue.Stream) *meter {
	m := q.meters[s]
	if m == nil {
		m = &meter{perSecond: q.readMessages, messages: q.readMessages * readAtOnce, bytes: readBytes * readAtOnce}
		q.meters[s] = m
	}
	return m
}

// fill lets time pass.
func (m *meter) fill(now time.Time) {
	passed := now.Sub(m.last).Seconds()
	if m.last.IsZero() {
		passed = 0
	}
	m.messages = min(m.messages+passed*m.perSecond, m.perSecond*readAtOnce)
	m.bytes = min(m.bytes+passed*readBytes, readBytes*readAtOnce)
	m.last = now
}

// empty reports whether nothing may be read now.
func (m *meter) empty(now time.Time) bool {
	if m == nil {
		return false
	}
	m.fill(now)
	return m.messages <= 0 || m.bytes <= 0
}

// take counts what was read, and reports whether that was the last for now.
func (m *meter) take(now time.Time, messages, bytes int64) bool {
	m.fill(now)
	before := m.messages > 0 && m.bytes > 0
	m.messages -= float64(messages)
	m.bytes -= float64(bytes)
	return before && (m.messages <= 0 || m.bytes <= 0)
}
