package scripts

import (
	"strings"
	"testing"
)

func TestUnknownMemberGetsTheListOfMembers(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"sleep": "it has create, delete, show", "creat": `did you mean "create"?`} {
		if got := memberHelp("it", name, []string{"create", "delete", "show"}); got != want {
			t.Errorf("%s: the help is %q, want %q", name, got, want)
		}
	}
	if got := memberHelp("it", "sleep", nil); got != "" {
		t.Errorf("without members the help is %q", got)
	}
	if got := memberList("it", make([]string, maxMembers+2)); !strings.HasSuffix(got, " and 2 more") {
		t.Errorf("a long list is %q", got)
	}
	report := Check(Bundle{Main: Source{Name: "a.tengo", Text: []byte("run := import(\"run\")\nrun.sleep(1)\n")}})
	if len(report.Diagnostics) == 0 || !strings.Contains(report.Diagnostics[0].String(), " it has ") {
		t.Errorf("the check says %v", report.Diagnostics)
	}
}
