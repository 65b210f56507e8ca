package workflow

import (
	"testing"

	"writ"
)

func TestConflictFailsOnlyCallsWithOtherNode(t *testing.T) {
	p := newPlanned()
	p.resource("web", "volume.create", writ.KindVolume, "data", map[string]any{"size_gib": int64(1)})
	mount := map[string]any{"volumes": []any{map[string]any{"volume": "data", "path": "/data"}}}
	network := p.call(t, "network.create", "lan", nil)
	here := p.call(t, "container.create", "here", mount, 1)
	elsewhere := p.call(t, "container.create", "elsewhere", mount, 1)
	elsewhere.Options.Node = "m"
	follower := p.call(t, "container.stop", "elsewhere", nil, elsewhere.Seq)
	p.allowAll()
	if err := arrange(p.Step, p); err != nil {
		t.Fatal(err)
	}
	if elsewhere.Error == nil || elsewhere.Error.Code != writ.CodeResourceConflict {
		t.Errorf("the call that requests another node than its volume has: %v", elsewhere.Error)
	}
	if follower.Error == nil || follower.Error.Code != writ.CodeDependencyFailed {
		t.Errorf("the call that needs it: %v", follower.Error)
	}
	if network.Node != "n" || here.Node != "n" || network.Error != nil || here.Error != nil {
		t.Errorf("the others of its group are on %q and %q: %v %v", network.Node, here.Node, network.Error, here.Error)
	}
}
