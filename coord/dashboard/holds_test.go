package dashboard_test

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/identity"
	"writ/ledger"
)

// Holds are shown above the lists of held work, with the command for readers who may use it. A reader of one project
// does not see the holds of another project.
//
// Promise: Operation: Held work is shown with its release command at each run and call, above the dashboard lists,
// and in `writ dc list`.
// How: Supervisors are asked each time; reasons come with runs and calls; readers of a project see only its holds.
// Also: TestAPersonHoldsWorkAndReleasesIt, TestValuesAndLogsComeFromTheDatacenter.
func TestPagesShowHolds(t *testing.T) {
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
		{Operation: "machine", Revision: 5, Decided: by("canary-released", "")}, // no longer in force
	}}}
	all := []string{"the datacenter</b> in ams1", "by the supervisor itself: the supervisor was started with --held", "the project shop</b> in ams1", "the deployment web of the project shop",
		"writ release --dc ams1<", "writ release --dc ams1 --project shop --deployment web<"}
	for _, path := range []string{"/", "/stuck", "/datacenters"} {
		w.readAs(page.Reader{All: true})
		body := w.page(path)
		wants(t, body, append(all, "the project canary", "writ release --dc ams1 --project canary<")...)
		if strings.Contains(body, "canary-released") || strings.Contains(body, "writ release --dc ams1 --project shop<") {
			t.Errorf("%s shows a released hold, or its command", path)
		}
		w.readAs(page.Reader{Projects: []writ.ProjectID{shop}, May: func(a identity.Action, _ writ.ProjectID) bool { return a == identity.ActionControlRuns }})
		body = w.page(path)
		wants(t, body, all[:4]...)
		if strings.Contains(body, "canary") || strings.Contains(body, "writ release") {
			t.Errorf("%s shows holds of another project, or forbidden commands", path)
		}
	}
}

// The command that releases a hold is shown once, next to the reason, with a button to copy it. A reader who gets no
// button reads the command in the reason.
func TestCommandOfAHoldAppearsOnce(t *testing.T) {
	t.Parallel()
	w := open(t)
	run := w.submit(1, "x.tengo", func(in *ledger.Incoming) { in.Received = time.Now().Add(-time.Hour) })
	run.State = writ.RunAccepted
	w.run(run)
	w.silence()
	const command = "writ release --dc ams1 --project web-shop"
	w.because(run.ID, heldBy("sam", "ams1", "web-shop"))
	for _, path := range []string{"/runs/" + string(run.ID), "/stuck"} {
		w.readAs(page.Reader{All: true})
		body := w.page(path)
		wants(t, body, "is on hold: sam has held the project web-shop", `data-copy="`+command+`"`)
		w.readAs(page.Reader{All: true, May: func(identity.Action, writ.ProjectID) bool { return false }})
		body = w.page(path)
		wants(t, body, "is on hold ("+command+"): sam has held the project web-shop")
		if strings.Contains(body, `data-copy="`+command) {
			t.Errorf("%s shows the command to a reader who may not use it", path)
		}
	}
}
