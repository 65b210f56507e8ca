package coord

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// A request for the log of a node is forwarded unchanged to its datacenter, and so is the answer.
func TestTheLogOfANodePassesThrough(t *testing.T) {
	p := start(t, nil)
	var asked link.LogOfNode
	line := link.NodeLine{Time: time.Now().UTC(), Boot: "b1", Source: "kernel", Level: "warn", Text: "it is late"}
	s := connect(p, vienna, func(s *supervisor) {
		hello := s.dialer.Hello
		s.dialer.Hello = func() link.Hello {
			h := hello()
			h.Verbs = append(h.Verbs, link.VerbNodeLog)
			return h
		}
		s.dialer.Handle = func(_ context.Context, _ link.Verb, params json.RawMessage) (any, error) {
			return link.NodeLog{Lines: []link.NodeLine{line}, Boot: "b1", Next: "kernel.7", Lost: true, More: true, Away: "is lost", Told: line.Time}, link.Decode(params, &asked)
		}
	})
	since := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	ask := func(datacenter string) (api.NodeLog, error) {
		return api.Answer[api.NodeLog](p.client.GetNodeLog(t.Context(), datacenter, "n1", &api.GetNodeLogParams{
			Source: api.Given("kernel"), Level: api.Given("warn"), Since: &since, After: api.Given("kernel.1"), Lines: api.Given(9),
		}))
	}
	got, err := ask("vienna")
	if diff := cmp.Diff(api.NodeLog{Lines: []api.NodeLine{{Time: line.Time, Boot: "b1", Source: "kernel", Level: "warn", Text: "it is late"}}, Boot: "b1", Next: "kernel.7", Lost: true, More: true, Away: "is lost", Told: line.Time}, got); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
	if diff := cmp.Diff(link.LogOfNode{Node: "n1", Source: "kernel", Level: "warn", Since: since, After: "kernel.1", Lines: 9}, asked); diff != "" {
		t.Error(diff)
	}
	if _, err := ask("atlantis"); writ.CodeOf(err) != writ.CodeDatacenterUnknown {
		t.Errorf("no datacenter: %v", err)
	}
	s.leave()
	if _, err := ask("vienna"); writ.CodeOf(err) != writ.CodeDatacenterAway {
		t.Errorf("log of a disconnected datacenter: %v", err)
	}
	connect(p, vienna, nil) // of an earlier version
	if _, err := ask("vienna"); writ.CodeOf(err) != writ.CodeVerbUnsupported {
		t.Errorf("log of a supervisor without the verb: %v", err)
	}
}
