package meant

import (
	"strings"
	"testing"
)

func TestUnknownMemberGetsTheListOfMembers(t *testing.T) {
	for name, want := range map[string]string{"sleep": "it has create, delete, show", "creat": `did you mean "create"?`} {
		if got := Member(name, []string{"create", "delete", "show"}); got != want {
			t.Errorf("%s: the help is %q, want %q", name, got, want)
		}
	}
	if got := Member("sleep", nil); got != "" {
		t.Errorf("without members the help is %q", got)
	}
	if got := Members("it", make([]string, maxMembers+2)); !strings.HasSuffix(got, " and 2 more") {
		t.Errorf("a long list is %q", got)
	}
}
