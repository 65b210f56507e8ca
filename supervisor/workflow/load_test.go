package workflow

import (
	"fmt"
	"testing"

	"writ"
	"writ/supervisor/journal"
)

// Promise: Speed and storage: A run that waits for results is not read again for each result, and cached runs use at
// most 32 MiB.
// How: The cache holds runs with open calls in journal form, evicted by last use.
// Also: TestWaitingRunNeedsNoMemory.
func TestRecentRunsStayWithinTheirBounds(t *testing.T) {
	r := newRecent()
	keep := func(i, bytes int) {
		r.put(&recentRun{run: &journal.Run{Run: writ.Run{ID: writ.RunID(fmt.Sprint(i))}, Bytes: bytes}})
	}
	for i := range 2 * maxRecent {
		keep(i, 0)
	}
	if len(r.runs) != maxRecent || r.order.Len() != maxRecent || r.take("0") != nil || r.take(writ.RunID(fmt.Sprint(2*maxRecent-1))) == nil {
		t.Errorf("%d of %d runs are kept, or the wrong ones", len(r.runs), 2*maxRecent)
	}
	for i := range 10 {
		keep(-1-i, maxRecentBytes/20)
	}
	if r.bytes > maxRecentBytes || r.take("-10") == nil || r.take("-1") != nil {
		t.Errorf("runs of %d bytes are kept, at most %d are meant", r.bytes, maxRecentBytes)
	}
	for id := range r.runs {
		r.take(id)
	}
	if r.bytes != 0 || r.order.Len() != 0 || r.take("-2") != nil {
		t.Errorf("%d bytes of %d runs are left when all are taken", r.bytes, r.order.Len())
	}
}
