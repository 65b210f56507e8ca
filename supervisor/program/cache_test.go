package program

import (
	"fmt"
	"strings"
	"testing"

	"writ"
	"writ/scripts"
)

// A plan may be far bigger than the script that it is of, and 256 runs with big plans side by side are possible.
func TestPlansCountAgainstTheMemoryOfPrograms(t *testing.T) {
	programs := newCache()
	plan := scripts.Plan{Logs: []string{"this plan is unused"}}
	for seq := range 100 {
		plan.Calls = append(plan.Calls, scripts.PlannedCall{Seq: seq + 1, Args: map[string]any{"cloud_init": strings.Repeat("x", 20_000)}})
	}
	for i := range 50 {
		programs.put(writ.RunID(fmt.Sprint(i)), (&program{size: 1_000}).bind(&plan))
	}
	if len(programs.kept) == 0 || len(programs.kept) > 5 || programs.bytes > maxProgramBytes {
		t.Errorf("%d programs with plans of 2 MB are kept as %d bytes", len(programs.kept), programs.bytes)
	}
	for id, p := range programs.kept {
		if p.plan == nil || len(p.plan.Calls) != 100 || p.plan.Logs != nil {
			t.Errorf("of %s another plan is kept", id)
		}
		programs.forget(id)
	}
	if programs.bytes != 0 || len(programs.bundles) != 0 {
		t.Errorf("%d bytes and %d bundles are left of no programs", programs.bytes, len(programs.bundles))
	}
}

// Thousands of runs of one script take the memory of one script.
func TestRunsOfOneScriptShareItsSources(t *testing.T) {
	programs := newCache()
	bundle := func(text string) scripts.Bundle {
		return scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(text + strings.Repeat(" ", 500_000))}}.WithDigest()
	}
	for i := range 5_000 {
		programs.put(writ.RunID(fmt.Sprint(i)), &program{bundle: bundle("one"), size: fixedSize})
	}
	if len(programs.kept) != 5_000 || programs.bytes > 6<<20 {
		t.Errorf("%d programs are kept as %d bytes", len(programs.kept), programs.bytes)
	}
	if a, b := programs.get("0").bundle.Main.Text, programs.get("4999").bundle.Main.Text; &a[0] != &b[0] {
		t.Error("two runs of one script have their own sources")
	}
	for i := range 200 {
		programs.put(writ.RunID(fmt.Sprint("other ", i)), &program{bundle: bundle(fmt.Sprint(i)), size: fixedSize})
	}
	if programs.bytes > maxProgramBytes || programs.get("other 199") == nil {
		t.Errorf("%d programs with %d scripts are kept as %d bytes", len(programs.kept), len(programs.bundles), programs.bytes)
	}
	programs.trim()
	programs.get("other 199")
	if programs.trim(); len(programs.kept) != 1 || len(programs.bundles) != 1 {
		t.Errorf("%d unused programs are kept", len(programs.kept)-1)
	}
	for id := range programs.kept {
		programs.forget(id)
	}
	if programs.bytes != 0 || len(programs.bundles) != 0 {
		t.Errorf("%d bytes and %d bundles are left of no programs", programs.bytes, len(programs.bundles))
	}
}
