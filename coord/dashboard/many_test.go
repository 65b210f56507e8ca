package dashboard_test

import (
	"html"
	"strings"
	"testing"

	"writ"
	"writ/coord/dashboard/page"
	"writ/identity"
)

// The list of runs offers one command for all selected runs: to readers with the right, and with names that are safe in
// a shell.
//
// Promise: Readers and roles: The list of runs offers one command for all selected runs to people that may control
// these runs.
// How: Filters that are unsafe in a shell or unknown to the command yield no command.
func TestTheListOfRunsOffersOneCommandForItsFilter(t *testing.T) {
	t.Parallel()
	w := open(t)
	fill(w)
	const project = "project=" + string(shop)
	for address, want := range map[string][]string{
		"/?" + project: {"writ run cancel --all --project web-shop<", "writ run resume --all --project web-shop<"},
		"/?" + project + "&state=failed&script=web.tengo&since=2h": {"writ run resume --all --project web-shop --script web.tengo --since 2h<"},
		"/?" + project + "&state=running&deployment=web":           {"writ run cancel --all --project web-shop --deployment web --state running<"},
		"/?" + project + "&state=succeeded":                        nil,
		"/?state=failed":                                           nil,
		"/?" + project + "&script=a%3Btouch+x":                     nil,
		"/?" + project + "&script=-x":                              nil,
		"/?" + project + "&deployment=$(id)":                       nil,
		"/?" + project + "&failure=NO_CAPACITY":                    nil,
	} {
		page := html.UnescapeString(w.page(address))
		for _, line := range want {
			if !strings.Contains(page, line) {
				t.Errorf("%s does not show %q", address, line)
			}
		}
		if n := strings.Count(page, "writ run cancel --all") + strings.Count(page, "writ run resume --all"); (n == 0) != (want == nil) {
			t.Errorf("%s shows %d commands, want %q", address, n, want)
		}
	}
	w.readAs(page.Reader{All: true, May: func(action identity.Action, _ writ.ProjectID) bool { return action != identity.ActionControlRuns }})
	if page := w.page("/?" + project); strings.Contains(page, "run cancel --all") || strings.Contains(page, "run resume --all") {
		t.Error("a reader who may not control runs gets the commands")
	}
}
