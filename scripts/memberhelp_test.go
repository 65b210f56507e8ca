package scripts_test

import (
	"strings"
	"testing"

	"writ/scripts/check"
)

func TestCheckListsTheMembersOfAModule(t *testing.T) {
	t.Parallel()
	report := check.Check(bundleOf("run := import(\"run\")\nrun.sleep(1)\n"))
	if len(report.Diagnostics) == 0 || !strings.Contains(report.Diagnostics[0].String(), " it has ") {
		t.Errorf("diagnostics = %v", report.Diagnostics)
	}
}
