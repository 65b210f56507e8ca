package scripts_test

import (
	"slices"
	"strings"
	"testing"

	"writ/scripts"
)

// Promise: Plans, scripts and manuals: A pruned resource is deleted after all calls of the script have succeeded, and
// only if the script does not name it.
// How: Each pass makes these calls at the end of the script, so a plan shows them.
func TestPruneDeletesAfterTheScript(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string // the calls of the run
	}{
		{
			"users first", `volume.create("data", {size_gib: 1})`,
			[]string{"volume.create data", "container.delete old", "image.delete app", "volume.delete spare"},
		},
		{
			"named by a call", `volume.get("spare"); container.delete("old")`,
			[]string{"volume.get spare", "container.delete old", "image.delete app"},
		},
		{
			"named by an argument", `container.create("web", {image: "app"})`,
			[]string{"container.create web", "container.delete old", "volume.delete spare"},
		},
		{
			"named late", `if volume.get("data").size_gib > 0 { volume.resize("spare", {size_gib: 2}) }`,
			[]string{"volume.get data", "volume.resize spare", "container.delete old", "image.delete app"},
		},
		{"a call failed", `volume.create("fail-x", {size_gib: 1})`, []string{"volume.create fail-x"}},
		{
			"a failure was handled", `volume.get("fail-x").err`,
			[]string{"volume.get fail-x", "container.delete old", "image.delete app", "volume.delete spare"},
		},
		{"a deletion failed", ``, []string{"container.delete fail-old"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := everything()
			in.Prune = []string{"container/old", "image/app", "volume/spare"}
			if tt.name == "a deletion failed" {
				in.Prune[0] = "container/fail-old"
			}
			p := compile(t, bundleOf(imports+tt.text))
			o, w := play(t, p, in, nil)
			var got []string
			for _, c := range w.calls {
				got = append(got, c.Operation+" "+c.Name)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("the run has the calls %q, want %q", got, tt.want)
			}
			failed := tt.name == "a deletion failed"
			if failed != (o.Status == scripts.Failed) || failed && o.Failure.Seq != 1 {
				t.Errorf("it is %s: %+v", o.Status, o.Failure)
			}
			open, err := p.Pass(t.Context(), in, nil) // no call of the script has ended
			if err != nil || len(w.calls) > 0 && strings.Contains(tt.text, "(") &&
				slices.ContainsFunc(open.Calls, func(c scripts.NewCall) bool { return c.Position == "prune" }) {
				t.Errorf("it deletes before the calls of the script have ended: %+v, %v", open.Calls, err)
			}
			plan := planOf(t, bundleOf(imports+tt.text), in)
			if plan.Horizon == nil && !strings.Contains(strings.Join(tt.want, " "), "fail-") {
				agree(t, tt.name, plan, o, w.calls)
				if len(plan.Calls) != len(tt.want) {
					t.Errorf("the plan has %d calls", len(plan.Calls))
				}
			}
		})
	}
}

func TestPlanEndsWherePrunedNamesAreUnknown(t *testing.T) {
	in := everything()
	in.Prune = []string{"volume/spare"}
	for _, text := range []string{
		`volume.get(volume.get("data").path)`,
		`container.create("web", {image: volume.get("data").path})`,
	} {
		plan := planOf(t, bundleOf(imports+text), in)
		if plan.Horizon == nil || plan.Horizon.Position != "prune" || len(plan.Horizon.After) != 1 || len(plan.Calls) != 2 {
			t.Errorf("%s: %+v, horizon %+v", text, plan.Calls, plan.Horizon)
		}
	}
}
