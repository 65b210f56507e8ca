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
	if programs.bytes != 0 {
		t.Errorf("%d bytes are left of no programs", programs.bytes)
	}
}
