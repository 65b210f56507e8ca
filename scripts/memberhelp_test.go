package scripts

import (
	"strings"
	"testing"
)

func TestCheckListsTheMembersOfAModule(t *testing.T) {
	t.Parallel()
	report := Check(Bundle{Main: Source{Name: "a.tengo", Text: []byte("run := import(\"run\")\nrun.sleep(1)\n")}})
	if len(report.Diagnostics) == 0 || !strings.Contains(report.Diagnostics[0].String(), " it has ") {
		t.Errorf("the check says %v", report.Diagnostics)
	}
}
