package resources

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/coord/remedy"
	"writ/identity"
	"writ/internal/hidden"
	"writ/ledger"
)

// resource is the page of one resource: its state, its problems, its load in the last day, and its events.
func (d *Pages) resource(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	res, err := d.resourceOf(ctx, r)
	if err != nil {
		return nil, err
	}
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	head := d.headOf(ctx, res, now)
	body := resourcePage{resourceHead: head}
	if !page.IsStream(r) {
		if body.Loads, err = d.loadsOf(ctx, []writ.Resource{res}); err != nil {
			return nil, err
		}
	}
	p := &page.Page{Title: string(res.Kind) + "/" + res.Name, Nav: "resources", Body: body}
	page.Add(p, page.Part{ID: "head"}, head)
	page.Add(p, page.Part{ID: "events", OfLedger: true}, eventsOf(res)...)
	return p, nil
}

// resourceOf returns the resource in the path of a request. The error is the same for an unreadable resource and a
// missing one.
func (d *Pages) resourceOf(ctx context.Context, r *http.Request) (writ.Resource, error) {
	filter := ledger.ResourceFilter{
		Datacenter: writ.DatacenterID(page.PathPart(r, "datacenter")),
		Projects:   []writ.ProjectID{writ.ProjectID(page.PathPart(r, "project"))},
		Kind:       writ.ResourceKind(page.PathPart(r, "kind")), Name: page.PathPart(r, "name"),
	}
	missing := ledger.NotThere("resource", string(filter.Kind)+"/"+filter.Name)
	// An empty field of a filter would select other resources.
	if filter.Datacenter == "" || filter.Kind == "" || filter.Name == "" || !d.Reader(ctx).Reads(filter.Projects[0]) ||
		filter.Projects[0] == "" {
		return writ.Resource{}, missing
	}
	list, err := d.Ledger.Resources(ctx, filter, ledger.Page{Limit: 1})
	if err == nil && len(list.Items) == 0 {
		err = missing
	}
	if err != nil {
		return writ.Resource{}, err
	}
	return list.Items[0], nil
}

// resourceHead is the upper part of the page of a resource.
type resourceHead struct {
	resourceRow
	Owner    string // page of the resource's deployment, or ""
	Troubles []trouble
	Commands []page.Command
}

// Key is constant, because its part of the page has no other element.
func (resourceHead) Key() string { return "head" }

// trouble is a problem of a resource, with the command that helps, "" if the reader may not run it.
type trouble struct {
	Of, What string // Of is the resource, "" on its own page
	Count    int    // number of resources of an unheard node or datacenter with this problem
	Since    time.Time
	Line     string
}

func (d *Pages) headOf(ctx context.Context, res writ.Resource, now *snapshot.Snapshot) resourceHead {
	reader := d.Reader(ctx)
	h := resourceHead{
		resourceRow: resourceRowOf(res, now, reader), Troubles: troublesOf(res, now, reader),
	}
	h.Wrong = nil // already in the list of problems
	if res.Deployment != "" {
		h.Owner = page.DeploymentPage(res.Datacenter, res.Project, res.Deployment)
	}
	h.Commands = resourceCommands(h.resourceRow, reader)
	return h
}

// troublesOf returns the problems of a resource.
func troublesOf(res writ.Resource, now *snapshot.Snapshot, reader page.Reader) (all []trouble) {
	listed := api.ListedResource{Resource: res}
	if u, is := now.UnheardNode(res.Datacenter, res.Node); is {
		listed.Unheard = &api.Unheard{State: api.UnheardState(u.State), Since: u.Since}
	}
	for _, t := range remedy.Resource(listed, now.ProjectName(res.Project), now.Datacenter(res.Datacenter).Name) {
		shown := trouble{What: hidden.Escape(t.What), Since: t.Since, Line: t.Next.Line}
		switch t.Next.Verb {
		case remedy.ListNodes, remedy.ShowNode, remedy.DeclareLost:
			if !reader.All {
				shown.Line = ""
			}
		case remedy.Logs:
			if !reader.Allows(identity.ActionSubmit, res.Project) {
				shown.Line = ""
			}
		}
		all = append(all, shown)
	}
	return all
}

// resourceCommands returns commands about a resource that the reader's role permits.
func resourceCommands(r resourceRow, reader page.Reader) []page.Command {
	where := place(r.ProjectName, r.DatacenterName)
	if where == "" || !writ.ValidName(r.Name) {
		return nil
	}
	name := string(r.ResourceID.Kind) + "/" + r.Name
	all := []page.Command{{Does: "Everything about it", Line: "writ resource show " + name + where}}
	if isMeasured(r.ResourceID.Kind) && reader.Allows(identity.ActionSubmit, r.Project) {
		all = append(all, page.Command{Does: "Its log", Line: "writ logs " + name + " --follow" + where})
	}
	return all
}

// place returns the flags of commands about a project in a datacenter, "" if a name is not safe in a shell.
func place(project, datacenter string) string {
	if !writ.ValidName(project) || !writ.ValidName(datacenter) {
		return ""
	}
	return " --project " + project + " --dc " + datacenter
}

// event is something that happened to a resource.
type event struct {
	Number int64 // number of the repair, 0 for other events
	What   string
	At     time.Time
	Run    string // page of the run that caused the event, or ""
}

// Key identifies the event of the resource.
func (e event) Key() string { return e.What + " " + e.At.UTC().Format(time.RFC3339Nano) }

// eventsOf lists the creation, the last change and the recorded repairs of a resource, newest first.
func eventsOf(res writ.Resource) []event {
	all := []event{{What: "made", At: res.Created}}
	if res.Updated.After(res.Created) {
		changed := event{What: "changed last", At: res.Updated}
		if res.Run.Valid() {
			changed.Run = page.RunPage(res.Run)
		}
		all = append(all, changed)
	}
	for _, m := range res.Mended {
		all = append(all, event{Number: m.Number, What: "mended: " + hidden.Escape(m.What), At: m.Time})
	}
	slices.SortStableFunc(all, func(a, b event) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Number, a.Number))
	})
	return all
}
