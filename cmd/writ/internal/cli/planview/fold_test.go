package planview

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
)

func TestPlanFoldsEqualCalls(t *testing.T) {
	view := &View{Preview: &writ.Preview{}}
	add := func(operation, position, node string) {
		seq := len(view.Calls) + 1
		view.Calls = append(view.Calls, scripts.PlannedCall{Seq: seq, Operation: operation, Position: position})
		view.Preview.Calls = append(view.Preview.Calls, writ.PreviewedCall{Seq: seq, Action: writ.ActionRead, NodeName: node})
	}
	for range 2000 {
		add("node.ping", "poll.tengo:3:2", "n1")
	}
	for n := range 6 {
		add("node.ping", "poll.tengo:3:2", fmt.Sprint("m", n/3))
	}
	add("node.facts", "poll.tengo:5:1", "n1")
	for wide, want := range map[bool]int{false: 2 + 6 + 1, true: 2007} {
		text := callsText{&planWriter{Terminal: terminal.New(os.Stdin, nil, nil, nil).Plain(), View: view, wide: wide}}
		text.calls(10)
		got := text.b.String()
		if lines := strings.Count(got, "\n"); lines != want {
			t.Errorf("wide %v: %d lines, want %d", wide, lines, want)
		}
		if !wide && !strings.Contains(got, "\n      calls 2 to 2000 are the same\n= 2001 node.ping") {
			t.Errorf("it shows\n%s", got)
		}
	}
}
