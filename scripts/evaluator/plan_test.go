package evaluator_test

import (
	"testing"

	"writ"
	"writ/scripts"
)

// TestPlanBombs plans scripts that use unknown values as much as possible. The child must survive each plan.
func TestPlanBombs(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 1)
	inputs := everything
	inputs.MaxCalls = scripts.MaxCalls
	for name, text := range map[string]string{
		"a sum of all results, again and again": `s := 0; for i := 0; i < 1900; i++ { s += node.facts().cpus }; l := []; for { l = append(l, s + len(l)) }`,
		"sums that each depend on other calls": `a := []; for i := 0; i < 1000; i++ { a = append(a, node.facts().cpus) }
l := []; for i := 0; i < 1000; i++ { s := a[i]; for j := 0; j < 1000; j++ { s += a[j]; l = append(l, s) } }`,
		"a value inside itself, printed":  `n := node.facts().cpus; x := [n]; x[0] = x; x = append(x, n); run.log("" + x); run.log(x)`,
		"twice the same, sixty times":     `x := [node.facts().cpus]; for i := 0; i < 60; i++ { x = [x, x] }; s := "" + x; if x == x { run.log(s) }`,
		"very deep":                       `x := node.facts().cpus; for i := 0; i < 300000; i++ { x = [x] }; s := "" + x; run.output({s: s})`,
		"an output that depends on all":   `s := 0; for i := 0; i < 1900; i++ { s += node.facts().cpus }; for i := 0; i < 100000; i++ { m := {}; m["k" + i] = s; run.output(m) }`,
		"calls that depend on all":        `s := 0; for i := 0; i < 900; i++ { s += node.facts().cpus }; for i := 0; i < 1000; i++ { node.ping({}, {labels: {a: "" + s, b: "b" + s, c: "c" + s, d: s, e: s, f: s, g: s, h: s}}) }`,
		"a long list that is looked into": `l := range(0, 200000); l = append(l, node.facts().cpus); for { s := "" + l }`,
		"recursion":                       `f := func(n) { return 1 + f(n + node.facts().cpus) }; f(0)`,
	} {
		plan, err := pool.Plan(t.Context(), bundle("node := import(\"node\"); run := import(\"run\")\n"+text), inputs)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if plan.Failure != nil && plan.Failure.Code != writ.CodeScriptLimit && plan.Failure.Code != writ.CodeScriptFailed {
			t.Errorf("%s: %+v", name, plan.Failure)
		}
		t.Logf("%s: %d calls, horizon %v, failure %v", name, len(plan.Calls), plan.Horizon, plan.Failure)
	}
	finish(t, pool, bundle(facts))
}
