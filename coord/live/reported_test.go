package live

import (
	"strings"
	"testing"

	"writ"
)

func TestReportedReasonGetsItsSentence(t *testing.T) {
	t.Parallel()
	text := writ.Reason{Code: writ.ReasonText, Text: "waits for node n1, which is silent"}
	silent := writ.Reason{Code: writ.ReasonNode, Node: "n1", State: "silent"}
	events := []writ.Event{
		{Run: &writ.Run{Why: silent, Reason: "a sentence that the datacenter made up"}}, {Call: &writ.Call{Why: silent}},
		{Call: &writ.Call{Reason: text.Text}}, {Run: &writ.Run{}}, {Log: &writ.LogLine{}},
		{Call: &writ.Call{Why: writ.Reason{Code: writ.ReasonProgress, Text: strings.Repeat("x", 1<<20)}}},
	}
	BoundReasons(events)
	for i, want := range []writ.Reason{silent, silent, text, {}} {
		got, sentence := writ.Reason{}, ""
		if e := events[i]; e.Run != nil {
			got, sentence = e.Run.Why, e.Run.Reason
		} else {
			got, sentence = e.Call.Why, e.Call.Reason
		}
		if !got.Equal(want) || sentence != want.String() {
			t.Errorf("event %d: %+v, %q", i, got, sentence)
		}
	}
	if long := events[5].Call; len(long.Reason) > 8<<10 || len(long.Why.Text) > 8<<10 {
		t.Errorf("the progress still has %d bytes", len(long.Reason))
	}
}
