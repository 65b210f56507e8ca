package ledger

import (
	"context"
	"slices"

	"writ"
)

// NodeFilter selects nodes. An empty field selects all nodes, but an empty Admission excludes removed nodes.
type NodeFilter struct {
	Datacenter writ.DatacenterID
	Admission  writ.Admission
	Nodes      []writ.NodeID
	Names      []string
}

// Selects reports whether the filter selects n.
func (f NodeFilter) Selects(n writ.Node) bool {
	admitted := n.Admission == f.Admission || f.Admission == "" && n.Admission != writ.AdmissionRemoved
	return admitted && (f.Datacenter == "" || n.Datacenter == f.Datacenter) &&
		(len(f.Nodes) == 0 || slices.Contains(f.Nodes, n.ID)) &&
		(len(f.Names) == 0 || slices.Contains(f.Names, n.Name))
}

// ResourceFilter selects resources. An empty field selects all.
type ResourceFilter struct {
	Datacenter writ.DatacenterID
	Projects   []writ.ProjectID
	Kind       writ.ResourceKind
	Name       string
	Node       writ.NodeID
	Deployment string
	Troubled   bool // only resources with a problem; see the function Troubled
}

// States and health of resources with a problem, as nodes report them.
const (
	StateUnclear = "unknown" // the driver cannot determine the state
	StateGone    = "gone"    // the node has lost the resource
	Unhealthy    = "unhealthy"
)

// Troubled reports whether a resource has a problem, according to the last report of its node: the resource is gone,
// unhealthy or in an unknown state, or it differs from its request.
func Troubled(r writ.Resource) bool {
	return len(r.Drift) > 0 || r.State == StateUnclear || r.State == StateGone || r.Health == Unhealthy
}

// Deployment is an owner of resources of a project in a datacenter.
type Deployment struct {
	Datacenter writ.DatacenterID
	Project    writ.ProjectID
	Name       string
	Resources  int // number of selected resources
}

// Newest returns the deployment's newest run, or nil if no run is stored. It also returns the newest accepted revision
// among the newest 20 runs, or 0. The run and the revision do not match if the newest run waits or was refused.
func (d Deployment) Newest(
	ctx context.Context, runs func(context.Context, RunFilter, Page) (List[Run], error),
) (newest *Run, revision int, err error) {
	for _, limit := range []int{1, 20} { // the newest run usually has a revision
		list, err := runs(ctx, d.Runs(), Page{Limit: limit})
		if err != nil || len(list.Items) == 0 {
			return nil, 0, err
		}
		for _, run := range list.Items {
			if run.Revision > 0 {
				return &list.Items[0], run.Revision, nil
			}
		}
		newest = &list.Items[0]
	}
	return newest, 0, nil
}

// Runs returns a filter for the runs of the deployment.
func (d Deployment) Runs() RunFilter {
	return RunFilter{Datacenter: d.Datacenter, Projects: []writ.ProjectID{d.Project}, Deployment: d.Name}
}
