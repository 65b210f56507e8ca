package workflow

import (
	"fmt"
	"strings"
	"testing"

	"writ"
	"writ/supervisor/journal"
)

// Promise: Speed and storage: A run that waits for results is not read again for each result, and cached runs use at
// most 32 MiB, and a large one 64 MiB.
// How: The cache holds open runs in journal form, evicted by last use, and a minute or two after it. A run of more than
// 8 MiB is held alone, beside the others.
// Also: TestWaitingRunNeedsNoMemory.
func TestRecentRunsStayWithinTheirBounds(t *testing.T) {
	r := newRecent()
	keep := func(i, bytes int) {
		r.put(&recentRun{run: &journal.Run{Run: writ.Run{ID: writ.RunID(fmt.Sprint(i))}, Bytes: bytes}})
	}
	small := (&recentRun{run: new(journal.Run)}).size()
	most := maxRecentBytes / small
	for i := range 2 * most {
		keep(i, 0)
	}
	if len(r.runs) != most || r.order.Len() != most || r.take("0") != nil || r.take(writ.RunID(fmt.Sprint(2*most-1))) == nil {
		t.Errorf("%d of %d runs are kept, or the wrong ones", len(r.runs), 2*most)
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
	keep(1, 100)
	keep(2, 100)
	r.trim()
	r.put(r.take("2"))
	keep(3, 100)
	r.trim()
	if len(r.runs) != 2 || r.take("1") != nil {
		t.Errorf("%d runs are kept, want those that were put between two calls of trim", len(r.runs))
	}
	if r.trim(); r.bytes != 0 || len(r.runs) != 0 {
		t.Errorf("%d unused runs are kept, as %d bytes", len(r.runs), r.bytes)
	}
}

// A run in memory does not replace most of the others. The first calls that it keeps count too. Of such runs, the last
// one is kept beside the others, until it was not used for a while.
func TestBigRunReplacesNoOthers(t *testing.T) {
	r := newRecent()
	put := func(id writ.RunID, bytes int, calls callList) {
		r.put(&recentRun{run: &journal.Run{Run: writ.Run{ID: id, Project: "p"}, Bytes: bytes}, calls: calls})
	}
	old := &journal.Call{Values: map[string]any{"text": strings.Repeat("x", maxRecentBytes/8)}}
	put("small", 0, callList{})
	put("big", maxRecentBytes/8, callList{})
	put("last", 0, callList{first: 1, old: map[int]*journal.Call{1: old}})
	put("huge", maxLargeBytes/4, callList{})
	if r.take("big") != nil || r.take("huge") != nil || r.projectOf("last") != "p" || r.take("last") == nil || r.take("last") != nil {
		t.Error("of the big runs, not exactly the last one of a permitted size is kept")
	}
	if r.take("small") == nil || r.bytes != 0 {
		t.Errorf("the small run is not kept; %d bytes", r.bytes)
	}
	put("big", maxRecentBytes/8, callList{})
	if r.trim(); r.large == nil {
		t.Error("a run is removed at once")
	}
	if r.trim(); r.large != nil {
		t.Error("an unused big run is kept")
	}
}
