package resources

import (
	"context"
	"net/http"
	"slices"

	"writ"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/coord/remedy"
	"writ/identity"
	"writ/ledger"
)

const (
	// maxOwned limits the resources on the page of a deployment, and maxTroubles the problems.
	maxOwned, maxTroubles = 50, 10
	maxRevisions          = 10
)

// deployment is the page of one deployment: its newest run, its problems, its load, its last runs and its resources.
func (d *Pages) deployment(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	one := ledger.Deployment{
		Datacenter: writ.DatacenterID(page.PathPart(r, "datacenter")),
		Project:    writ.ProjectID(page.PathPart(r, "project")), Name: page.PathPart(r, "name"),
	}
	missing := ledger.NotThere("deployment", one.Name)
	// An empty field of a filter would select other deployments.
	if one.Datacenter == "" || one.Project == "" || one.Name == "" || !d.Reader(ctx).Reads(one.Project) {
		return nil, missing
	}
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	filter := ledger.ResourceFilter{
		Datacenter: one.Datacenter, Projects: []writ.ProjectID{one.Project}, Deployment: one.Name,
	}
	owned, err := d.Ledger.Resources(ctx, filter, ledger.Page{Limit: maxOwned})
	if err != nil {
		return nil, err
	}
	revisions, err := d.Ledger.Runs(ctx, one.Runs(), ledger.Page{Limit: maxRevisions})
	if err != nil {
		return nil, err
	}
	// Deployments have no record of their own: a deployment without resources is unknown once all its runs are deleted.
	if len(owned.Items)+len(revisions.Items) == 0 {
		return nil, missing
	}
	head, err := d.deploymentHeadOf(ctx, one, owned, now)
	if err != nil {
		return nil, err
	}
	body := deploymentPage{deploymentHead: head}
	if !page.IsStream(r) {
		if body.Loads, err = d.loadsOf(ctx, owned.Items); err != nil {
			return nil, err
		}
	}
	p := &page.Page{Title: one.Name, Nav: "deployments", Body: body}
	page.Add(p, page.Part{ID: "head"}, head)
	reader := d.Reader(ctx)
	rows := make([]ownedRow, len(owned.Items))
	for i, res := range owned.Items {
		rows[i] = ownedRow{resourceRowOf(res, now, reader)}
		rows[i].Wrong = nil // already in the list of problems
	}
	page.Add(p, page.Part{ID: "resources"}, rows...)
	runs := make([]revisionRow, len(revisions.Items))
	for i, run := range revisions.Items {
		runs[i] = revisionRow{run}
	}
	page.Add(p, page.Part{ID: "revisions", OfLedger: true}, runs...)
	return p, nil
}

// deploymentHead is the upper part of the page of a deployment.
type deploymentHead struct {
	deploymentRow
	Remedy   remedy.Command // command that helps the newest run
	Troubles []trouble
	Unlisted bool // there are more problems
	Commands []page.Command
}

// Key is constant, because its part of the page has no other element.
func (deploymentHead) Key() string { return "head" }

// deploymentHeadOf describes a deployment. owned is the first page of its resources.
func (d *Pages) deploymentHeadOf(
	ctx context.Context, one ledger.Deployment, owned ledger.List[writ.Resource], now *snapshot.Snapshot,
) (h deploymentHead, err error) {
	reader := d.Reader(ctx)
	one.Resources = len(owned.Items)
	if h.deploymentRow, err = d.deploymentRowOf(ctx, one, ledger.ResourceFilter{}, now); err != nil {
		return h, err
	}
	if h.Newest != nil && h.Newest.Ended.IsZero() {
		why, err := d.LiveView.Why(ctx, *h.Newest)
		if err != nil {
			return h, err
		}
		h.Remedy = now.Remedy(reader, *h.Newest, why[h.Newest.ID])
		h.Why = snapshot.SentenceBeside(why[h.Newest.ID], h.Remedy)
	}
	if err := addTroubles(ctx, d, &h, owned, now); err != nil {
		return h, err
	}
	where := place(h.ProjectName, h.DatacenterName)
	if where == "" || !writ.ValidName(one.Name) {
		return h, nil
	}
	h.Commands = []page.Command{{Does: "Everything about it", Line: "writ status " + one.Name + where}}
	if reader.Allows(identity.ActionSubmit, one.Project) {
		h.Commands = append(h.Commands, page.Command{Does: "Its logs", Line: "writ logs " + one.Name + " --follow" + where})
	}
	return h, nil
}

// addTroubles adds the problems of the resources. Problems that nodes report are found for all resources. The loss of
// contact with a node or datacenter is found only for resources on the first page.
func addTroubles(
	ctx context.Context, d *Pages, h *deploymentHead, owned ledger.List[writ.Resource], now *snapshot.Snapshot,
) error {
	troubled, err := d.Ledger.Resources(ctx, ledger.ResourceFilter{
		Datacenter: h.Datacenter, Projects: []writ.ProjectID{h.Project}, Deployment: h.Name, Troubled: true,
	}, ledger.Page{Limit: maxTroubles})
	if err != nil {
		return err
	}
	h.Unlisted = troubled.Next != ""
	all := troubled.Items
	for _, res := range owned.Items {
		if !ledger.Troubled(res) {
			all = append(all, res)
		}
	}
	reader := d.Reader(ctx)
	for _, res := range all {
		for _, t := range troublesOf(res, now, reader) {
			t.Of = string(res.Kind) + "/" + res.Name
			h.Troubles = append(h.Troubles, t)
		}
	}
	h.Troubles = mergeUnheard(h.Troubles)
	if len(h.Troubles) > maxTroubles {
		h.Troubles, h.Unlisted = h.Troubles[:maxTroubles], true
	}
	return nil
}

// mergeUnheard merges equal problems with the same start. These are lost contacts with a node or datacenter, which
// would otherwise be listed once per resource. Count is the number of resources.
func mergeUnheard(all []trouble) (merged []trouble) {
	for _, t := range all {
		i := slices.IndexFunc(merged, func(m trouble) bool {
			return !m.Since.IsZero() && m.Since.Equal(t.Since) && m.What == t.What && m.Line == t.Line
		})
		if i < 0 {
			t.Count = 1
			merged = append(merged, t)
		} else {
			merged[i].Count++
		}
	}
	return merged
}

// ownedRow is a row of the resources of the deployment.
type ownedRow struct{ resourceRow }

// revisionRow is a run of the deployment.
type revisionRow struct{ ledger.Run }

// Key identifies the run.
func (r revisionRow) Key() string { return string(r.ID) }
