package dashboard_test

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard"
	"writ/identity"
)

// What is on hold stands above the lists of what it keeps waiting, with the command for those who may type it. A reader of one project sees nothing of
// another one's.
func TestPagesShowWhatIsOnHold(t *testing.T) {
	t.Parallel()
	w := open(t)
	by := func(signer, reason string) []writ.Decision {
		return []writ.Decision{{Decision: "hold", Signer: signer, Reason: reason, Time: time.Now()}}
	}
	w.holds = []api.DatacenterHolds{{Datacenter: ams, Name: "ams1", Holds: []api.Hold{
		{Held: true, Revision: 1, ByOperator: true, Decided: by("", "the supervisor was started with --held")},
		{Project: shop, ProjectName: "shop", Exempt: true, Revision: 2, Decided: by("alice", "")},
		{Project: bank, ProjectName: "canary", Held: true, Revision: 3, Decided: by("sam", "the bill is checked")},
		{Project: shop, ProjectName: "shop", Deployment: "web", Held: true, ByOperator: true, Revision: 4, Decided: by("bob", "")},
		{Operation: "machine", Revision: 5, Decided: by("canary-released", "")}, // which counts no more
	}}}
	all := []string{"the datacenter</b> in ams1", "by the supervisor itself: the supervisor was started with --held", "the project shop</b> in ams1", "the deployment web of the project shop",
		"writ release --dc ams1<", "writ release --dc ams1 --project shop --deployment web<"}
	for _, path := range []string{"/", "/stuck", "/datacenters"} {
		w.readAs(dashboard.Reader{All: true})
		body := w.page(path)
		wants(t, body, append(all, "the project canary", "writ release --dc ams1 --project canary<")...)
		if strings.Contains(body, "canary-released") || strings.Contains(body, "writ release --dc ams1 --project shop<") {
			t.Errorf("%s shows what is not on hold, or offers to release what was", path)
		}
		w.readAs(dashboard.Reader{Projects: []writ.ProjectID{shop}, May: func(a identity.Action, _ writ.ProjectID) bool { return a == identity.ActionControlRuns }})
		body = w.page(path)
		wants(t, body, all[:4]...)
		if strings.Contains(body, "canary") || strings.Contains(body, "writ release") {
			t.Errorf("%s shows a reader of another project what that has on hold, or commands that are not for him", path)
		}
	}
}
