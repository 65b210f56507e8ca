package why

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/internal/test/testenv"
)

// Promise: Operation: `writ submit`, `writ run watch` and `writ logs` explain a silent run within 8 s, with the command
// that ends the wait.
// How: The command checks the run 4 s after the last event, as `writ run explain` does.
// Also: TestLookoutLooksOnlyWhileRunIsSilent, TestWatcherNamesCommandThatEndsWait.
func TestWatcherShowsWaitsWithTheirCommand(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	id := writ.RunIDOf(writ.Digest{1})
	call := func(seq int, state writ.CallState, why writ.Reason, after ...int) writ.Call {
		return writ.Call{Run: id, Seq: seq, Operation: "volume.create", Name: "v", State: state, Node: "n", NodeName: "n1", Why: why, Reason: why.String(), After: after, Started: now}
	}
	none, retry := writ.Reason{}, writ.Reason{Code: writ.ReasonRetry, Until: now}
	cordoned := writ.Reason{Code: writ.ReasonNoNode, Nodes: []writ.NodesReason{
		{Names: []string{"n1"}, Code: writ.VerdictClosed, Text: "is cordoned"},
	}}
	lost := writ.Node{ID: "n", Liveness: writ.LivenessLost, LastBeat: now}
	for name, tt := range map[string]struct {
		change func(s *Situation)
		want   string
	}{
		"Healthy": {func(s *Situation) {
			s.Calls = []writ.Call{call(1, writ.CallRunning, none), call(2, writ.CallPlanned, none, 1)}
		}, ""},
		"Evaluated": {func(*Situation) {}, ""},
		"Ended":     {func(s *Situation) { s.Run.State = api.RunStateFailed }, ""},
		"Unknown":   {func(s *Situation) { s.Run = api.Run{} }, ""},
		"NotAccepted": {func(s *Situation) { s.Run.Accepted = time.Time{} },
			"… it waits for its datacenter ams1 to connect\n  next: writ dc list"},
		"DatacenterAway": {func(s *Situation) { s.datacenter.Health = api.DatacenterHealthAway },
			"… its datacenter ams1 is away: this is the last known state. If its supervisor runs, the run continues there; if not, start it on " +
				"its host: writ supervisor --data DIR\n  next: writ dc list"},
		"Blocked": {func(s *Situation) { s.Run.Reason = "an operator works on it" }, "… an operator works on it"},
		"LostNode": {func(s *Situation) {
			s.nodes["n"] = lost
			s.Calls = []writ.Call{call(1, writ.CallQueued, none), call(2, writ.CallPlanned, none, 1)}
		}, "… 1 volume.create v: it was sent to n1, which is lost since " + cli.Clock(now) + "\n  first: start its machine and its runner: the node then continues with its calls and resources\n" +
			"  next: writ node lost n1 --dc ams1\n" +
			"    if the machine never comes back: declares it lost; its calls fail or move, the names of its resources are free\n" +
			"… 2 volume.create v: its node n1 is lost since " + cli.Clock(now) + "\n  first: start its machine and its runner: the node then continues with its calls and resources\n" +
			"  next: writ node lost n1 --dc ams1\n" +
			"    if the machine never comes back: declares it lost; its calls fail or move, the names of its resources are free"},
		"WithCommandFirst": {func(s *Situation) {
			s.Calls = []writ.Call{call(1, writ.CallPlanned, retry), call(2, writ.CallPlanned, cordoned)}
		}, "… 2 volume.create v: no node is ready: n1: is cordoned\n  next: writ node uncordon n1 --dc ams1\n… 1 volume.create v: it is tried again at 12:00:00 UTC, after a failure"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Situation{
				Run:        api.Run{ID: id, State: api.RunStateRunning, Accepted: now, Deadline: now.Add(time.Hour)},
				datacenter: api.Datacenter{Name: "ams1", Health: api.DatacenterHealthHealthy}, nodes: map[writ.NodeID]writ.Node{}, now: now,
			}
			tt.change(s)
			said := new(testenv.Log)
			notes := WaitNotes{Show: (&terminal.Notices{Err: said}).Note}
			notes.NoteAll(s.WaitReasons())
			notes.NoteAll(s.WaitReasons()) // no line is printed twice
			if got := strings.TrimSuffix(said.String(), "\n"); got != tt.want {
				t.Errorf("it shows\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
