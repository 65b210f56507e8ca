package ledger

import (
	"context"
	"time"

	"writ"
)

// Usages stores the hourly usage of resources forever, for billing.
type Usages interface {
	// Usage sums the usage of each resource, ordered by project, kind, name and UID.
	Usage(ctx context.Context, filter UsageFilter, page Page) (List[Usage], error)
	// UsageOfProjects sums the usage of each project, ordered by project. A project without usage has no entry.
	UsageOfProjects(ctx context.Context, filter UsageFilter, page Page) (List[ProjectUsage], error)
}

// UsageFilter selects hours of usage. An empty field selects all.
type UsageFilter struct {
	Projects    []writ.ProjectID
	Datacenter  writ.DatacenterID
	From, Until time.Time // the hours that start at From or later and before Until
}

// Usage is the usage of one resource, summed over the selected hours.
type Usage struct {
	writ.ResourceID
	UID         writ.UID          `json:"uid"`
	Datacenter  writ.DatacenterID `json:"datacenter"`
	First, Last time.Time         `json:"-"` // the first and the last hour with usage, by their start
	writ.Used
}

// ProjectUsage is the usage of a project's resources, summed over the selected hours.
type ProjectUsage struct {
	Project   writ.ProjectID
	Resources int // number of entries of the project in Usage
	writ.Used
}
