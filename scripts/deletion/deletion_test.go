package deletion_test

import (
	"bytes"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/deletion"
	"writ/scripts/format"
	"writ/scripts/interpreter"
)

func TestUsersAreDeletedFirst(t *testing.T) {
	var all []deletion.Resource
	for _, kind := range writ.ResourceKinds {
		all = append(all, deletion.Resource{Kind: kind, Name: "b"}, deletion.Resource{Kind: kind, Name: "a"})
	}
	got := make(map[writ.ResourceKind]int)
	for i, stage := range deletion.Stages(all) {
		for j, r := range stage {
			got[r.Kind] = i
			if j > 0 && stage[j-1].Kind == r.Kind && stage[j-1].Name > r.Name {
				t.Errorf("stage %d is not sorted: %v", i, stage)
			}
		}
	}
	want := map[writ.ResourceKind]int{
		"container": 0, "machine": 0, "herodb": 0, "volume": 1, "network": 1, "image": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, op := range catalog.Operations() { // also for kinds that are added later
		if op.Effect != catalog.Make {
			continue
		}
		for _, held := range op.HeldKinds() {
			if held != op.Kind && got[held] <= got[op.Kind] {
				t.Errorf("a %s is deleted before a %s, which may need it", held, op.Kind)
			}
		}
	}
}

func TestDeletionScriptIsWellFormed(t *testing.T) {
	var all []deletion.Resource
	for _, kind := range writ.ResourceKinds {
		all = append(all, deletion.Resource{Kind: kind, Name: "web-0"}, deletion.Resource{Kind: kind, Name: "web-1"})
	}
	text := deletion.Script("Deletes the resources of web.\nAll of them.", all)
	at := func(line string) int { return bytes.Index(text, []byte(line)) }
	if database := at(`herodb.delete("web-0")`); database < at(`container.delete("web-1")`) ||
		database < at(`machine.delete("web-1")`) || database > at(`volume.delete("web-0")`) {
		t.Errorf("a database is not deleted between the programs that use it and its volume:\n%s", text)
	}
	bundle, err := scripts.Resolve(scripts.Source{Name: "destroy.tengo", Text: text},
		func(string) ([]byte, error) { return nil, fs.ErrNotExist })
	if err != nil {
		t.Fatal(err)
	}
	report := check.Check(bundle)
	if len(report.Diagnostics) > 0 || len(report.Operations) != len(writ.ResourceKinds) {
		t.Errorf("operations %v, diagnostics %v in\n%s", report.Operations, report.Diagnostics, text)
	}
	plan, err := interpreter.PlanOf(t.Context(), bundle, scripts.Inputs{Allow: report.Operations, MaxCalls: scripts.MaxCalls})
	if err != nil || plan.Horizon != nil || len(plan.Calls) != len(all) {
		t.Fatalf("%v, the plan %+v", err, plan)
	}
	last := 0 // of the first stage
	for _, c := range plan.Calls {
		if len(c.Waits) > 0 && last == 0 {
			last = c.Seq - 1
		}
	}
	if waits := plan.Calls[last].Waits; last == 0 || len(waits) != last {
		t.Errorf("call %d waits for the calls %v, want all before it", last+1, waits)
	}
	formatted, err := format.Format(scripts.Source{Name: "destroy.tengo", Text: text})
	if err != nil || string(formatted) != string(text) {
		t.Errorf("%v; the layout differs: %s", err, cmp.Diff(string(formatted), string(text)))
	}
}
