package workflow

import (
	"fmt"
	"strings"
	"testing"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
)

func TestMissingResourceGetsSuggestion(t *testing.T) {
	t.Parallel()
	calls := new(callList)
	add := func(operation string, kind writ.ResourceKind, name string) {
		calls.all = append(calls.all, &journal.Call{Call: writ.Call{
			Seq: len(calls.all) + 1, Operation: operation, Kind: kind, Name: name}})
	}
	add("image.fetch", writ.KindImage, "webserver")
	add("volume.create", writ.KindVolume, "webserver-data")
	add("container.create", writ.KindContainer, "web")
	op, _ := catalog.Lookup("container.create")
	hint := func(kind writ.ResourceKind, name string) string {
		return missing(op, writ.Ref{Kind: kind, Name: name}, madeBefore(calls, kind, 3))
	}
	if got := hint(writ.KindImage, "webserfer"); !strings.HasPrefix(got, `did you mean "webserver"? fetch it first with image.fetch("webserfer", …)`) {
		t.Errorf("the hint for a mistyped image is %q", got)
	}
	if got := hint(writ.KindVolume, "webserver-dta"); got != `did you mean "webserver-data"? create it first, in this script or in an earlier one` {
		t.Errorf("the hint for a mistyped volume is %q", got)
	}
	if got := hint(writ.KindImage, "other"); strings.Contains(got, "did you mean") {
		t.Errorf("the hint for another image is %q", got)
	}
	for i := range 2000 {
		add("image.fetch", writ.KindImage, fmt.Sprintf("image-%d", i))
	}
	if got := madeBefore(calls, writ.KindImage, len(calls.all)); len(got) != mostMeant {
		t.Errorf("%d names are compared", len(got))
	}
}
