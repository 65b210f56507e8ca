package why

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
)

func TestRunThatRepeatsACallShowsItsLine(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	calls := func(n int, change func(i int, c *writ.Call)) (all []writ.Call) {
		for i := range n {
			c := writ.Call{Seq: i + 1, Operation: "machine.get", Name: "web", Position: "web.tengo:4:6", State: writ.CallSucceeded, Planned: now.Add(time.Duration(i) * time.Second)}
			change(i, &c)
			all = append(all, c)
		}
		return all
	}
	for name, test := range map[string]struct {
		calls []writ.Call
		want  bool
	}{
		"a loop that polls": {calls(60, func(int, *writ.Call) {}), true},
		"a loop after other calls": {calls(90, func(i int, c *writ.Call) {
			if i < 20 {
				c.Position = "web.tengo:2:1"
			}
		}), true},
		"few calls":           {calls(20, func(int, *writ.Call) {}), false},
		"many resources":      {calls(60, func(i int, c *writ.Call) { c.Name += strings.Repeat("x", i) }), false},
		"all in one pass":     {calls(60, func(_ int, c *writ.Call) { c.Planned = now }), false},
		"from several places": {calls(60, func(i int, c *writ.Call) { c.Position = "web.tengo:" + strings.Repeat("1", i%2+1) + ":1" }), false},
		"none":                {nil, false},
	} {
		s := &Situation{
			Run:   api.Run{ID: "r", State: api.RunStateRunning, Accepted: now, Deadline: now.Add(time.Hour)},
			now:   now,
			Calls: test.calls, nodes: map[writ.NodeID]writ.Node{},
			datacenter: api.Datacenter{Name: "ams1", Health: api.DatacenterHealthHealthy},
		}
		if why := s.Explain().Why; strings.Contains(why, "it repeats machine.get web at web.tengo:4:6") != test.want {
			t.Errorf("%s: %s", name, why)
		}
	}
}
