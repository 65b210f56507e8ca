package ledgertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/ledger"
)

// addMany adds n submissions for east. It returns them with their numbers by run.
func addMany(t testing.TB, l ledger.Ledger, n int) (in []ledger.Incoming, known map[writ.RunID]int) {
	t.Helper()
	known = make(map[writ.RunID]int, n)
	for i := range n {
		one := incoming(i, east)
		add(t, l, one)
		in, known[one.Run] = append(in, one), i
	}
	return in, known
}

// testRepeating lists open runs that repeat a call. Calls from one evaluation of the script, or from several lines, are
// not a loop.
func testRepeating(t *testing.T, l ledger.Ledger) {
	in, known := addMany(t, l, 5)
	const looping, talking, busy, short, ended = 0, 1, 2, 3, 4
	all := []writ.Event{}
	for n := range in {
		all = append(all, runEvent(runOf(in[n], writ.RunRunning)))
	}
	planned := time.Now().Add(-time.Hour).Truncate(time.Second)
	for seq := 1; seq <= ledger.LoopCalls+1; seq++ {
		call := func(n int, position string, planned time.Time) {
			all = append(all,
				callEvent(writ.Call{
					Run: in[n].Run, Seq: seq, State: writ.CallSucceeded, Operation: "node.ping", Position: position, Planned: planned,
				}))
		}
		at := planned.Add(time.Duration(seq) * time.Second)
		call(looping, "poll.tengo:3:2", at)
		call(talking, fmt.Sprintf("poll.tengo:%d:2", seq%2), at)
		call(busy, "poll.tengo:3:2", planned)
		if seq < ledger.LoopCalls {
			call(short, "poll.tengo:3:2", at)
		}
		call(ended, "poll.tengo:3:2", at)
	}
	store(t, l, east, events(1, append(all, runEvent(runOf(in[ended], writ.RunFailed)))...))
	earlier := time.Now().Add(-time.Minute)
	if got := names(t, l, ledger.RunFilter{Silent: earlier}, known); !slices.Equal(got, []int{looping}) {
		t.Errorf("runs that repeat a call: %v, want %d", got, looping)
	}
	repeated, err := l.Repeated(t.Context(), in[looping].Run, in[talking].Run, in[short].Run)
	if call := repeated[in[looping].Run]; err != nil || len(repeated) != 1 || call.Position != "poll.tengo:3:2" ||
		call.Seq != ledger.LoopCalls+1 {
		t.Errorf("calls that are repeated: %v, %v", repeated, err)
	}
	if none, err := l.Repeated(t.Context()); err != nil || len(none) != 0 {
		t.Errorf("calls that no run repeats: %v, %v", none, err)
	}
	if got := names(t, l, ledger.RunFilter{Silent: in[looping].Received}, known); len(got) > 0 {
		t.Errorf("runs that came later: %v", got)
	}
}

// testSilent lists the open runs without events, by the store's clock.
func testSilent(t *testing.T, l ledger.Ledger) {
	in, known := addMany(t, l, 5)
	future := incoming(9, east)
	future.Received = time.Now().Add(2 * time.Hour)
	add(t, l, future)
	store(t, l, east, events(1,
		runEvent(runOf(in[0], writ.RunRunning)), runEvent(runOf(in[1], writ.RunFailed)), runEvent(runOf(in[2],
			writ.RunAccepted)),
		callEvent(writ.Call{Run: in[0].Run, Seq: 1, State: writ.CallSucceeded}),
		callEvent(writ.Call{Run: in[0].Run, Seq: 2, State: writ.CallQueued, Reason: "waits"}),
		callEvent(writ.Call{Run: in[0].Run, Seq: 3, State: writ.CallPlanned}),
		callEvent(writ.Call{Run: in[0].Run, Seq: 4, State: writ.CallRunning}),
		callEvent(writ.Call{Run: in[2].Run, Seq: 1, State: writ.CallExpired})))
	ok(t, l.Reject(t.Context(), in[3].Payload, writ.SubmissionRefused, writ.Errorf(writ.CodeRoleMissing, "no")))
	later, earlier := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	if got := names(t, l, ledger.RunFilter{Silent: later}, known); !slices.Equal(got, []int{4, 2, 0}) {
		t.Errorf("silent: %v", got)
	}
	if got := names(t, l, ledger.RunFilter{Silent: earlier}, known); len(got) > 0 {
		t.Errorf("runs with recent events: %v", got)
	}
	if got := names(t, l, ledger.RunFilter{Silent: later, Oldest: true}, known); !slices.Equal(got, []int{0, 2, 4}) {
		t.Errorf("silent, the oldest first: %v", got)
	}
	counts, err := l.CountRuns(t.Context(), ledger.RunFilter{Silent: later, Projects: []writ.ProjectID{shop}})
	if diff := cmp.Diff(ledger.RunCounts{shop: {"running": 1, "accepted": 1, "waiting": 1}}, counts); err != nil ||
		diff != "" {
		t.Errorf("counts of the silent runs: %v\n%s", err, diff)
	}
	heard, err := l.LastHeard(t.Context(), in[0].Run, in[4].Run, writ.RunIDOf(writ.Digest{9}))
	for _, n := range []int{0, 4} {
		if ago := time.Since(heard[in[n].Run]); err != nil || len(heard) != 2 || ago < 0 || ago > time.Hour {
			t.Errorf("the last event of run %d is %s old: %v, %v", n, ago, heard, err)
		}
	}
	store(t, l, east, events(9, writ.Event{Log: &writ.LogLine{Run: in[0].Run, Ordinal: 1, Text: "still waiting"}}))
	if again, err := l.LastHeard(t.Context(), in[0].Run); err != nil || !again[in[0].Run].Equal(heard[in[0].Run]) {
		t.Errorf("a log line counts as progress: %v, before %v, %v", again, heard, err)
	}
	ok(t, l.Prune(t.Context(), later, time.Time{}))
	if heard, err := l.LastHeard(t.Context(), in[0].Run); err != nil || len(heard) != 0 {
		t.Errorf("last events of a run without events: %v, %v", heard, err)
	}
	if heard, err := l.LastHeard(t.Context()); err != nil || len(heard) != 0 {
		t.Errorf("last events without runs: %v, %v", heard, err)
	}
	if got := names(t, l, ledger.RunFilter{Silent: earlier}, known); !slices.Equal(got, []int{4, 2, 0}) {
		t.Errorf("after all events are deleted: %v", got)
	}
	open, err := l.OpenCalls(t.Context(), 2, in[0].Run, in[2].Run, in[4].Run)
	want := map[writ.RunID][]writ.Call{in[0].Run: {
		{Run: in[0].Run, Seq: 2, State: writ.CallQueued, Reason: "waits"},
		{Run: in[0].Run, Seq: 3, State: writ.CallPlanned},
	}}
	if diff := cmp.Diff(want, open); err != nil || diff != "" {
		t.Errorf("open calls: %v\n%s", err, diff)
	}
	if none, err := l.OpenCalls(t.Context(), 2); err != nil || len(none) != 0 {
		t.Errorf("open calls of no run: %v, %v", none, err)
	}
}
