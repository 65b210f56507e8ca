package runview

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/coord/remedy"
	"writ/internal/test/testenv"
)

func TestProgressShortensLongFailures(t *testing.T) {
	t.Parallel()
	said := new(testenv.Log)
	p := NewProgress(&terminal.Terminal{Notices: terminal.Notices{Err: said}}, nil, time.Time{})
	long := writ.Errorf(writ.CodeUnhealthy, "the container web is not healthy; its output ends with: %s", strings.Repeat("a line; ", 90))
	p.event(api.Event{Call: &writ.Call{Seq: 3, Operation: "container.create", Name: "web", State: writ.CallFailed, Error: long}})
	got := said.String()
	if !strings.HasPrefix(got, "✗ 3 container.create web: failed, UNHEALTHY: the container web is not healthy; ") || !strings.HasSuffix(got, "…\n") || len(got) > 260 {
		t.Errorf("it shows %d bytes: %s", len(got), got)
	}
}

func TestProgressShowsUncheckedURL(t *testing.T) {
	t.Parallel()
	said := new(testenv.Log)
	p := NewProgress(&terminal.Terminal{Notices: terminal.Notices{Err: said}}, nil, time.Time{})
	for seq, change := range []writ.Change{writ.ChangeUpdated, writ.ChangeCreated} {
		p.event(api.Event{Call: &writ.Call{
			Seq: seq + 1, Operation: "image.fetch", State: writ.CallSucceeded, Node: "1", NodeName: "n1", Change: change,
		}})
	}
	want := "✓ 1 image.fetch on n1, -: updated (the content stays; the new url is not checked before the next fetch)\n" +
		"✓ 2 image.fetch on n1, -: created\n"
	if got := said.String(); got != want {
		t.Errorf("it shows\n%swant\n%s", got, want)
	}
}

func TestProgressShowsTheReasonOfAStartedCall(t *testing.T) {
	t.Parallel()
	said := new(testenv.Log)
	p := NewProgress(&terminal.Terminal{Notices: terminal.Notices{Err: said}}, nil, time.Time{})
	c := writ.Call{Seq: 3, Operation: "container.create", Name: "web", State: writ.CallQueued, NodeName: "n1", Attempt: 1}
	p.event(api.Event{Call: &c})
	c.State, c.Reason = writ.CallRunning, "the container is not healthy yet: connection refused at port 80"
	c.Why = writ.Reason{Code: writ.ReasonProgress, Text: c.Reason}
	p.event(api.Event{Call: &c})
	p.event(api.Event{Call: &c}) // a reopened stream repeats it
	want := "→ 3 container.create web on n1\n… 3 container.create web: the container is not healthy yet: connection refused at port 80\n"
	if got := said.String(); got != want {
		t.Errorf("it shows\n%swant\n%s", got, want)
	}
}

// The lookout prints the next command of a waiting call below the reason, and repeats the reason after another line.
func TestNextCommandFollowsItsReason(t *testing.T) {
	t.Parallel()
	reason := writ.Reason{Code: writ.ReasonText, Text: "no node is ready: n1: is cordoned"}
	waiting := why.WaitReason{Call: "1 network.create lan", Reason: why.Reason{Why: reason.Text, Next: remedy.Command{Line: "writ node uncordon n1"}}}
	call := api.Event{Call: &writ.Call{Seq: 1, Operation: "network.create", Name: "lan", State: writ.CallPlanned, Why: reason, Reason: reason.Text}}
	run := func(state api.RunState) api.Event {
		return api.Event{Run: &api.Run{ID: "r", Datacenter: "dc1", State: state}}
	}
	log := api.Event{Log: &writ.LogLine{Ordinal: 1, Text: "a line"}}
	const line, next = "… 1 network.create lan: no node is ready: n1: is cordoned\n", "  next: writ node uncordon n1\n"
	for name, tt := range map[string]struct {
		events []api.Event
		want   string
	}{
		"run later": {[]api.Event{run(api.RunStateAccepted), call, run(api.RunStateRunning)}, "run r\n… running in dc1\n" + line + next},
		"log later": {[]api.Event{run(api.RunStateRunning), call, log}, "run r\n… running in dc1\n" + line + "│ a line\n" + line + next},
		"call ends": {
			[]api.Event{run(api.RunStateRunning), call, {Call: &writ.Call{Seq: 2, Operation: "node.ping", State: writ.CallSucceeded}}},
			"run r\n… running in dc1\n" + line + "✓ 2 node.ping\n" + line + next,
		},
	} {
		said := new(testenv.Log)
		p := NewProgress(&terminal.Terminal{Notices: terminal.Notices{Err: said}}, nil, time.Time{})
		for _, e := range tt.events {
			p.event(e)
		}
		p.Waits.NoteAll([]why.WaitReason{waiting})
		if got := said.String(); got != tt.want {
			t.Errorf("%s: it shows\n%swant\n%s", name, got, tt.want)
		}
	}
}

// The stream of a run repeats earlier events. Events that the user has seen, or that precede a resume, are not shown
// again.
func TestProgressOmitsRepeatsAndTheTimeBeforeAResume(t *testing.T) {
	ended := time.Now()
	run := func(state api.RunState, why writ.Reason) api.Event {
		r := &api.Run{ID: "r", Datacenter: "dc1", State: state, Why: why, Reason: why.String()}
		if state.Ended() {
			r.Ended = ended
		}
		return api.Event{Run: r}
	}
	call := func(seq, attempt int, state writ.CallState, err *writ.Error) api.Event {
		return api.Event{Call: &writ.Call{Seq: seq, Operation: "node.ping", State: state, Attempt: attempt, Error: err}}
	}
	none, resumed := writ.Reason{}, writ.Reason{Code: writ.ReasonResumed, By: "alice"}
	gone := writ.Errorf(writ.CodeNotFound, "no file")
	said := new(testenv.Log)
	p := NewProgress(&terminal.Terminal{Notices: terminal.Notices{Err: said}}, nil, ended)
	for _, e := range []api.Event{
		run(api.RunStateRunning, resumed),
		run(api.RunStateAccepted, none), run(api.RunStateRunning, none),
		call(1, 1, writ.CallSucceeded, nil), call(2, 1, writ.CallFailed, gone),
		{Log: &writ.LogLine{Ordinal: 1, Text: "first"}},
		run(api.RunStateFailed, none),
		run(api.RunStateAccepted, none), run(api.RunStateRunning, resumed),
		call(2, 2, writ.CallPlanned, gone), call(2, 2, writ.CallSucceeded, nil),
		{Log: &writ.LogLine{Ordinal: 1, Text: "first"}}, {Log: &writ.LogLine{Ordinal: 2, Text: "second"}},
	} {
		p.event(e)
	}
	want := "run r\n… running in dc1\n… it was resumed by alice\n↻ 2 node.ping: attempt 2, NOT_FOUND: no file\n✓ 2 node.ping\n│ second\n"
	if got := said.String(); got != want {
		t.Errorf("it shows\n%swant\n%s", got, want)
	}
}

func TestProgressNamesRefusedStream(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"… the connection was lost, trying again: gone\n":                          writ.Errorf(writ.CodeUnreachable, "gone"),
		"… the coordinator refuses another event stream, trying again: too many\n": writ.Errorf(writ.CodeTooManyWatchers, "too many"),
	} {
		said := new(testenv.Log)
		NewProgress(&terminal.Terminal{Notices: terminal.Notices{Err: said}}, nil, time.Time{}).Watcher().Lost(err)
		if got := said.String(); got != want {
			t.Errorf("it shows %q, want %q", got, want)
		}
	}
}
