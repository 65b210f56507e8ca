package nodes

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/coord/api"
)

func TestTheLogOfANodeShowsStartsOfItsMachine(t *testing.T) {
	at := time.Date(2026, 11, 27, 1, 2, 3, 4e6, time.UTC)
	line := func(boot, source, level, text string) api.NodeLine {
		return api.NodeLine{Time: at, Boot: boot, Source: source, Level: level, Text: text}
	}
	r := &nodeLogReader{}
	got := r.text(api.NodeLog{Boot: "b2", Lines: []api.NodeLine{
		line("b1", "kernel", "error", "disk\x1b[2J fails"), line("b1", "runner", "info", "one"), line("b2", "containerd", "warn", "two"),
	}})
	got += r.text(api.NodeLog{Boot: "b2", Lines: []api.NodeLine{line("b2", "runner", "info", "three")}})
	got += r.text(api.NodeLog{Boot: "b3", Lines: []api.NodeLine{line("b3", "runner", "info", "four")}})
	want := `-- an earlier start of the machine, boot id b1
2026-11-27T01:02:03.004Z kernel   ERROR disk�[2J fails
2026-11-27T01:02:03.004Z runner   INFO  one
-- the machine was started again, boot id b2
2026-11-27T01:02:03.004Z containerd WARN  two
2026-11-27T01:02:03.004Z runner   INFO  three
-- the machine was started again, boot id b3
2026-11-27T01:02:03.004Z runner   INFO  four
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := new(nodeLogReader).text(api.NodeLog{Boot: "b2", Lines: []api.NodeLine{line("b2", "runner", "info", "one")}}); got != "2026-11-27T01:02:03.004Z runner   INFO  one\n" {
		t.Errorf("text of one start:\n%s", got)
	}
}

func TestFlagsThatAskForNoLogAreRefused(t *testing.T) {
	now := time.Now()
	p, err := (&nodeLogFlags{source: "kernel", level: "warn", since: "10m", tail: 7}).params(now)
	since := now.Add(-10 * time.Minute)
	if diff := cmp.Diff(api.GetNodeLogParams{Source: api.Given("kernel"), Level: api.Given("warn"), Since: &since, Lines: api.Given(7)}, p); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
	if _, err := (&nodeLogFlags{tail: 1, since: "soon"}).params(now); writ.CodeOf(err) != writ.CodeUsage {
		t.Errorf("--since soon: %v", err)
	}
}
