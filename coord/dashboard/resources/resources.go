// Package resources has the pages of resources, deployments, secrets and usage.
package resources

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"writ"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/internal/hidden"
	"writ/ledger"
)

const (
	maxResources   = 50
	maxDeployments = 50
)

// Pages serves the pages of resources, deployments, secrets and usage.
type Pages struct{ *snapshot.Source }

// Routes lists the pages about resources, secrets and usage.
func (d *Pages) Routes() []page.Route {
	return []page.Route{
		{Pattern: "/resources", View: d.resources, Live: true},
		{Pattern: "/resources/{datacenter}/{project}/{kind}/{name}", View: d.resource, Live: true},
		{Pattern: "/deployments", View: d.deployments, Live: true},
		{Pattern: "/deployments/{datacenter}/{project}/{name}", View: d.deployment, Live: true},
		{Pattern: "/secrets", View: d.secrets},
		{Pattern: "/usage", View: d.usage},
	}
}

// resourceFilter parses the filter of an address. The reader may read all resources that the filter selects.
func (d *Pages) resourceFilter(ctx context.Context, q url.Values) (ledger.ResourceFilter, error) {
	projects, err := d.Reader(ctx).Selects(writ.ProjectID(q.Get("project")))
	if err != nil {
		return ledger.ResourceFilter{}, err
	}
	filter := ledger.ResourceFilter{
		Datacenter: writ.DatacenterID(q.Get("datacenter")), Projects: projects, Kind: writ.ResourceKind(q.Get("kind")),
		Node:       writ.NodeID(q.Get("node")),
		Deployment: q.Get("deployment"), Troubled: q.Get("troubled") != "",
	}
	if filter.Kind != "" && !slices.Contains(writ.ResourceKinds, filter.Kind) {
		return filter, writ.Errorf(writ.CodeBadRequest, "unknown kind %q", filter.Kind).
			WithHint("the kinds are %v", writ.ResourceKinds)
	}
	return filter, nil
}

// resources is the page of resources.
func (d *Pages) resources(ctx context.Context, r *http.Request, quiet bool) (*page.Page, error) {
	q := r.URL.Query()
	filter, err := d.resourceFilter(ctx, q)
	if err != nil {
		return nil, err
	}
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	reader := d.Reader(ctx)
	data := listPage{
		Selection: d.SelectionOf(ctx, now, q), Filter: filter,
		All: page.Address(r.URL, "project", "", "datacenter", "", "kind", "", "node", "", "deployment", "", "troubled", ""),
	}
	if filter.Node != "" {
		data.NodeName = now.NodeName(filter.Datacenter, filter.Node)
	}
	p := &page.Page{Title: "Resources", Nav: "resources", Body: resourcesPage{data}}
	if quiet && now.IsSteady() {
		return p, nil
	}
	counted := filter
	counted.Kind = ""
	counts, err := d.Ledger.CountResources(ctx, counted)
	if err != nil {
		return nil, err
	}
	page.Add(p, page.Part{ID: "counts", OfLedger: true}, page.Counts(r.URL, "kind", writ.ResourceKinds, counts)...)
	list, err := d.Ledger.Resources(ctx, filter, ledger.Page{Limit: maxResources, Cursor: q.Get(page.CursorParam)})
	if err != nil {
		return nil, err
	}
	rows := make([]resourceRow, len(list.Items))
	for i, res := range list.Items {
		rows[i] = resourceRowOf(res, now, reader)
	}
	page.Add(p, page.Part{ID: "resources", OfLedger: true}, rows...)
	page.Add(p, page.Part{ID: "pager", OfLedger: true}, page.PagerOf(r.URL, list.Next, "More resources"))
	return p, nil
}

// listPage is the body of the pages of resources and deployments, without their parts.
type listPage struct {
	snapshot.Selection
	Filter   ledger.ResourceFilter
	NodeName string
	All      string // the address without filters
	Submits  bool   // the reader may submit a script
}

// Filtered reports whether the list may omit items.
func (l listPage) Filtered() bool {
	f := l.Filter
	return l.Project != "" || l.Datacenter != "" || f.Kind != "" || f.Node != "" || f.Deployment != "" || f.Troubled
}

// resourceRow is a row of the list of resources.
type resourceRow struct {
	writ.Resource
	ProjectName    string
	DatacenterName string
	NodeName       string
	NodePage       string // "" without a node
	Everything     bool   // the reader reads nodes
	Page           string
	DeploymentPage string // "" without a deployment
	Wrong          []string
	Unheard        *snapshot.Unheard // the node of a running resource if the node is unheard, otherwise nil
}

// stateRunning is the state of a resource that only its node can confirm.
const stateRunning = "running"

// Key identifies the resource.
func (r resourceRow) Key() string {
	return string(r.Datacenter) + "/" + string(r.Project) + "/" + string(r.ResourceID.Kind) + "/" + r.Name
}

// RunPage returns the address of the run that last changed the resource, or "".
func (r resourceRow) RunPage() string {
	if !r.Run.Valid() {
		return ""
	}
	return "/runs/" + string(r.Run)
}

func resourceRowOf(res writ.Resource, now *snapshot.Snapshot, reader page.Reader) resourceRow {
	row := resourceRow{
		Resource: res, ProjectName: now.ProjectName(res.Project), DatacenterName: now.Datacenter(res.Datacenter).Name,
		Page: page.ResourcePage(res.Datacenter, res.ResourceID),
	}
	if res.Deployment != "" {
		row.DeploymentPage = page.DeploymentPage(res.Datacenter, res.Project, res.Deployment)
	}
	for _, text := range res.Drift {
		row.Wrong = append(row.Wrong, hidden.Escape(text))
	}
	row.Everything = reader.All
	if u, is := now.UnheardNode(res.Datacenter, res.Node); is && res.State == stateRunning {
		row.Unheard = u.ShownTo(reader)
	}
	if reader.All && res.Node != "" {
		row.NodeName, row.NodePage = now.NodeName(res.Datacenter, res.Node), page.NodePage(res.Datacenter, res.Node)
	}
	return row
}

// deployments is the page of deployments.
func (d *Pages) deployments(ctx context.Context, r *http.Request, quiet bool) (*page.Page, error) {
	q := r.URL.Query()
	filter, err := d.resourceFilter(ctx, q)
	if err != nil {
		return nil, err
	}
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	data := listPage{Selection: d.SelectionOf(ctx, now, q), Filter: filter, All: "/deployments"}
	data.Submits = d.Reader(ctx).MaySubmit(data.Projects)
	p := &page.Page{Title: "Deployments", Nav: "deployments", Body: deploymentsPage{data}}
	if quiet {
		return p, nil
	}
	list, err := d.Ledger.Deployments(ctx, filter, ledger.Page{Limit: maxDeployments, Cursor: q.Get(page.CursorParam)})
	if err != nil {
		return nil, err
	}
	rows := make([]deploymentRow, len(list.Items))
	for i, one := range list.Items {
		if rows[i], err = d.deploymentRowOf(ctx, one, filter, now); err != nil {
			return nil, err
		}
	}
	if err := d.sayWhy(ctx, rows); err != nil {
		return nil, err
	}
	page.Add(p, page.Part{ID: "deployments", OfLedger: true}, rows...)
	page.Add(p, page.Part{ID: "pager", OfLedger: true}, page.PagerOf(r.URL, list.Next, "More deployments"))
	return p, nil
}

// deploymentRow is a row of the list of deployments.
type deploymentRow struct {
	ledger.Deployment
	ProjectName    string
	DatacenterName string
	Newest         *ledger.Run // nil if the ledger has pruned all runs
	Revision       int         // last revision that the datacenter accepted, 0 if unknown
	Why            string      // why the newest run is on hold or waits, "" if it has ended
	Page           string
	List           string // address of the list of its resources
	Runs           string // address of the list of its runs
}

// Key identifies the deployment.
func (r deploymentRow) Key() string {
	return string(r.Datacenter) + "/" + string(r.Project) + "/" + r.Name
}

func (d *Pages) deploymentRowOf(
	ctx context.Context, one ledger.Deployment, filter ledger.ResourceFilter, now *snapshot.Snapshot,
) (deploymentRow, error) {
	same := url.Values{"project": {string(one.Project)}, "datacenter": {string(one.Datacenter)}, "deployment": {one.Name}}
	row := deploymentRow{
		Deployment: one, ProjectName: now.ProjectName(one.Project), DatacenterName: now.Datacenter(one.Datacenter).Name,
		Page: page.DeploymentPage(one.Datacenter, one.Project, one.Name), Runs: "/?" + same.Encode(),
	}
	// The linked list has the page's filters: it shows exactly the resources that the row counts.
	for name, value := range map[string]string{"kind": string(filter.Kind), "node": string(filter.Node)} {
		if value != "" {
			same.Set(name, value)
		}
	}
	row.List = "/resources?" + same.Encode()
	var err error
	row.Newest, row.Revision, err = one.Newest(ctx, d.Ledger.Runs)
	return row, err
}

// sayWhy sets the reason why the newest run of each deployment has not ended. It sends one request for all rows.
func (d *Pages) sayWhy(ctx context.Context, rows []deploymentRow) error {
	var open []ledger.Run
	for _, r := range rows {
		if r.Newest != nil && r.Newest.Ended.IsZero() {
			open = append(open, *r.Newest)
		}
	}
	why, err := d.LiveView.Why(ctx, open...)
	if err != nil {
		return err
	}
	for i, r := range rows {
		if r.Newest != nil {
			rows[i].Why = why[r.Newest.ID].String()
		}
	}
	return nil
}
