package scripts_test

import (
	"strings"
	"testing"

	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/interpreter"
)

// Promise: Plans, scripts and manuals: A container gets a fraction of a CPU in steps of 0.01, without a rounding error;
// any other amount is refused before a person signs.
func TestFractionsOfCPUs(t *testing.T) {
	create := func(cpus string) string { return `container.create("web", {image: "web", cpus: ` + cpus + `})` }
	hash := func(cpus string) string {
		o := first(t, imports+create(cpus))
		if o.Status != scripts.Completed {
			t.Fatalf("%s: %+v", cpus, o.Failure)
		}
		return o.Calls[0].Hash.String()
	}
	for cpus, want := range map[string]any{
		"0.25": "0.25", "0.1 + 0.2": "0.3", "1.0": int64(1), "2": int64(2), `"0.50"`: "0.5", "undefined": int64(1), "3 * 0.1": "0.3", "256.0": int64(256),
	} {
		o := first(t, imports+create(cpus))
		if o.Status != scripts.Completed || o.Calls[0].Args["cpus"] != want {
			t.Errorf("%s: %+v, %+v", cpus, o.Calls, o.Failure)
		}
	}
	if hash("1.0") != hash("1") || hash("0.1 + 0.2") != hash("0.3") || hash("0.25") == hash("0.26") {
		t.Error("the hash of a call does not follow from its number of CPUs")
	}
	for _, cpus := range []string{"0", "-1", "-0.5", "0.001", "0.125", "0.0", "256.01", "257", `"half"`, "true"} {
		r := check.Check(bundleOf(`container := import("container")` + "\n" + create(cpus) + "\n"))
		if r.OK() || !strings.Contains(r.String(), "cpus must be a number") || !strings.Contains(r.String(), strings.Trim(cpus, `"`)) && cpus != "true" && cpus != "0.0" {
			t.Errorf("the check of %s: %s", cpus, r)
		}
		o := first(t, imports+create(cpus))
		if o.Status != scripts.Failed || !strings.Contains(o.Failure.Message, "cpus must be a number") {
			t.Errorf("the pass of %s: %s %+v", cpus, o.Status, o.Failure)
		}
	}
	o := first(t, imports+`math := import("math"); `+create("math.nan()"))
	if o.Status != scripts.Failed || !strings.Contains(o.Failure.Message, "in steps of 0.01, not") {
		t.Errorf("NaN: %s %+v", o.Status, o.Failure)
	}
	for _, other := range []string{`machine.create("m", {cpus: 1.5, memory_mib: 64})`, `volume.create("v", {size_gib: 1.5})`} {
		if o := first(t, imports+other); o.Status != scripts.Failed || !strings.Contains(o.Failure.Message, "is a float") {
			t.Errorf("%s: %s %+v", other, o.Status, o.Failure)
		}
	}
	plan, err := interpreter.PlanOf(t.Context(), bundleOf(imports+`facts := node.facts()`+"\n"+create("facts.cpus")), everything())
	if err != nil || plan.Failure != nil || len(plan.Calls) != 2 {
		t.Errorf("a plan with an unknown number: %v %+v", err, plan)
	}
}
