package memory_test

import (
	"testing"
	"testing/synctest"

	"writ/runner/queue"
	"writ/runner/queue/memory"
	"writ/runner/queue/queuetest"
)

// transport runs the suite on the queue in memory; all processes are cut together.
type transport struct {
	first *memory.Queue
	open  []*memory.Queue
}

func (tr *transport) Open(t *testing.T) queue.Queue {
	q := tr.first.Attach()
	tr.open = append(tr.open, q)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func (tr *transport) Flush(*testing.T) { tr.first.Flush() }

func (tr *transport) Cut(*testing.T) {
	for _, q := range tr.open {
		q.Cut(true)
	}
}

func (tr *transport) Restore(*testing.T) {
	for _, q := range tr.open {
		q.Cut(false)
	}
}

func (tr *transport) Kill(_ *testing.T, q queue.Queue) { _ = q.Close() }

// In a synctest bubble the suite takes no real time, and a leaked goroutine fails it.
func TestMemoryPassesTheConformanceSuite(t *testing.T) {
	for _, c := range queuetest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, &transport{first: memory.New()}) })
		})
	}
}
