package spans

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/tracing"
	"writ/ledger"
)

// recording returns a function that records an event at a second after the start, and a function that returns the spans with
// the given names.
func recording(r *Recorder, name ...string) (tell func(second int, e writ.Event), spans func() []string) {
	var all []string
	r.DatacenterName = func(writ.DatacenterID) string { return "vienna" }
	r.Record = func(s tracing.Span) {
		for _, n := range name {
			if s.Name == n {
				all = append(all, fmt.Sprintf("%s %g-%g %s", s.Name, s.From.Sub(began).Seconds(), s.Until.Sub(began).Seconds(), s.Labels["reason"]))
			}
		}
	}
	tell = func(second int, e writ.Event) {
		e.Time = at(second)
		r.record(&ledger.Event{Event: e, Datacenter: vienna, About: e.RunID()})
	}
	return tell, func() []string { return all }
}

var began = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func at(second int) time.Time { return began.Add(time.Duration(second) * time.Second) }

const one = writ.RunID("aaaaaaaaaaaaaaaaaaaaaaaaaa")

func TestEachStepWithAPassIsASpan(t *testing.T) {
	tell, spans := recording(new(Recorder), "step")
	run := writ.Run{ID: one, Script: "web.tengo", State: writ.RunAccepted, Accepted: at(0)}
	first := writ.Call{Run: one, Seq: 1, Operation: "volume.create", State: writ.CallQueued, Planned: at(1), Queued: at(1)}
	beside := first
	beside.Seq = 2
	tell(0, writ.Event{Run: &run})
	tell(2, writ.Event{Call: &first})
	tell(2, writ.Event{Call: &beside})
	running := run
	running.State, running.Started = writ.RunRunning, at(1)
	tell(2, writ.Event{Run: &running})
	first.State = writ.CallRunning
	tell(4, writ.Event{Call: &first}) // a step without a pass
	first.State, first.Started, first.Ended = writ.CallSucceeded, at(3), at(5)
	next := writ.Call{Run: one, Seq: 3, Operation: "node.ping", State: writ.CallPlanned, Planned: at(6)}
	tell(7, writ.Event{Call: &first})
	tell(7, writ.Event{Call: &next})
	next.State, next.Ended = writ.CallSucceeded, at(8)
	tell(9, writ.Event{Call: &next})
	running.State, running.Ended = writ.RunSucceeded, at(10)
	tell(11, writ.Event{Run: &running})
	if diff := cmp.Diff([]string{"step 1-2 ", "step 6-7 ", "step 10-11 "}, spans()); diff != "" {
		t.Error(diff)
	}
}

func TestLateRecorderRecordsNoOldStep(t *testing.T) {
	tell, spans := recording(new(Recorder), "step")
	old := writ.Call{Run: one, Seq: 1, State: writ.CallRunning, Planned: at(1)}
	tell(50, writ.Event{Call: &old})
	tell(51, writ.Event{Run: &writ.Run{ID: one, State: writ.RunRunning, Accepted: at(0), Started: at(1)}})
	tell(61, writ.Event{Call: &writ.Call{Run: one, Seq: 2, State: writ.CallPlanned, Planned: at(60)}})
	if diff := cmp.Diff([]string{"step 60-61 "}, spans()); diff != "" {
		t.Error(diff)
	}
}

func TestReasonsToWaitAreShownOfRunsAndCalls(t *testing.T) {
	hold := writ.Reason{Code: writ.ReasonHold, Hold: &writ.HoldReason{Datacenter: "vienna", By: "alice", Since: at(0)}}
	held := hold.String()
	noNode := func() writ.Reason {
		return writ.Reason{Code: writ.ReasonNoNode, Nodes: []writ.NodesReason{{Names: []string{"n1"}, Text: "has no room"}}}
	}
	retry := writ.Reason{Code: writ.ReasonRetry, Until: at(20), Error: writ.Errorf(writ.CodeDriverFailed, "is on hold (no")}
	r := new(Recorder)
	tell, spans := recording(r, "on hold", "no node is ready", "pause before the next attempt", "earlier run of the deployment", "waits")
	run := writ.Run{ID: one, Script: "web.tengo", State: writ.RunAccepted, Accepted: at(0), Why: writ.Reason{Code: writ.ReasonRun, Run: writ.RunID(strings.Repeat("b", 26)), Deployment: "w"}}
	tell(0, writ.Event{Run: &run})
	run.Why = hold
	tell(2, writ.Event{Run: &run})
	call := writ.Call{Run: one, Seq: 1, Operation: "volume.create", State: writ.CallPlanned, Planned: at(5), Attempt: 1}
	tell(5, writ.Event{Call: &call})
	run.State, run.Started, run.Why = writ.RunRunning, at(5), writ.Reason{}
	tell(5, writ.Event{Run: &run})
	for i, why := range []writ.Reason{
		noNode(), noNode(), hold, {Code: writ.ReasonNode, Node: "n1", State: "silent"}, {}, retry,
	} {
		call.Why = why
		tell(6+i, writ.Event{Call: &call})
	}
	places := map[tracing.Place]bool{}
	record := r.Record
	r.Record = func(s tracing.Span) { places[s.At] = true; record(s) }
	call.State, call.Why, call.Queued = writ.CallRunning, writ.Reason{Code: writ.ReasonProgress, Text: "50 %"}, at(15)
	tell(15, writ.Event{Call: &call}) // a progress report of a node is not a wait
	if !places[tracing.OfCall(one, 1).Part(fmt.Sprintf("since %d", at(11).UnixMicro()))] {
		t.Error("the last wait of the call is not a part of the call")
	}
	other := writ.Call{Run: one, Seq: 2, State: writ.CallPlanned, Planned: at(5), Why: writ.Reason{Code: writ.ReasonText, Text: strings.Repeat("ü", maxReason)}}
	tell(16, writ.Event{Call: &other})
	if n := len(r.open[one].waits[2].reason); n > maxReason || r.waiting != 1 {
		t.Errorf("%d bytes of a reason, %d waits", n, r.waiting)
	}
	run.State, run.Ended = writ.RunCancelled, at(20)
	tell(20, writ.Event{Run: &run})
	if diff := cmp.Diff([]string{
		"earlier run of the deployment 0-2 waits for run " + strings.Repeat("b", 26) + ", an earlier one of the deployment w", "on hold 2-5 " + held,
		"no node is ready 6-8 no node is ready: n1: has no room", "on hold 8-9 " + held, "waits 9-10 waits for node n1, which is silent",
		"pause before the next attempt 11-15 is tried again at 12:00:20 UTC, after DRIVER_FAILED: is on hold (no",
	}, spans()); diff != "" {
		t.Error(diff)
	}
	if len(r.open) > 0 || r.waiting != 0 {
		t.Errorf("%d runs and %d waits are remembered", len(r.open), r.waiting)
	}
}

func TestMemoryOfOpenRunsIsBounded(t *testing.T) {
	r := new(Recorder)
	tell, _ := recording(r)
	why := writ.Reason{Code: writ.ReasonNoNode, Text: "none"}
	for i := range 2 * maxOpen {
		id := writ.RunIDOf(writ.DigestOf(fmt.Append(nil, i)))
		tell(i, writ.Event{Call: &writ.Call{Run: id, Seq: 1, State: writ.CallPlanned, Why: why, Planned: at(i)}})
		tell(i, writ.Event{Call: &writ.Call{Run: id, Seq: 2, State: writ.CallPlanned, Why: why, Planned: at(i)}})
	}
	if len(r.open) > maxOpen || r.waiting > maxWaits {
		t.Errorf("%d runs and %d waits", len(r.open), r.waiting)
	}
}
