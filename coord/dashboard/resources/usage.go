package resources

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"writ"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/ledger"
)

const (
	maxUsage   = 50
	months     = 12 // number of months that the page offers
	monthForm  = "2006-01"
	monthParam = "month"
	allMonths  = "all"
)

// usage is the page of the resource usage in a month: by project, or by resource of one project.
func (d *Pages) usage(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	q := r.URL.Query()
	projects, err := d.Reader(ctx).Selects(writ.ProjectID(q.Get("project")))
	if err != nil {
		return nil, err
	}
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	data := usagePage{
		Selection: d.SelectionOf(ctx, now, q),
		Month:     cmp.Or(q.Get(monthParam), now.At.UTC().Format(monthForm)), Months: monthsUntil(now.At),
	}
	if !slices.Contains(data.Months, data.Month) {
		data.Months = append([]string{data.Month}, data.Months...)
	}
	filter := ledger.UsageFilter{Projects: projects, Datacenter: data.Datacenter}
	if data.Month != allMonths {
		if filter.From, err = time.Parse(monthForm, data.Month); err != nil {
			return nil, writ.Errorf(writ.CodeBadRequest, "%s: %q is not a valid month", monthParam, data.Month).
				WithHint("write it as 2026-11, or %s", allMonths)
		}
		filter.Until = filter.From.AddDate(0, 1, 0)
	}
	if err := d.readUsage(ctx, r.URL, &data, filter, now); err != nil {
		return nil, err
	}
	data.Command = usageCommand(data, now)
	return &page.Page{Title: "Usage", Nav: "usage", Body: data}, nil
}

// readUsage loads the usage of all projects, or of the resources of the chosen project.
func (d *Pages) readUsage(
	ctx context.Context, own *url.URL, data *usagePage, filter ledger.UsageFilter, now *snapshot.Snapshot,
) error {
	at := ledger.Page{Limit: maxUsage, Cursor: own.Query().Get(page.CursorParam)}
	if data.Project == "" {
		sums, err := d.Ledger.UsageOfProjects(ctx, filter, at)
		if err != nil {
			return err
		}
		for _, u := range sums.Items {
			data.Sums = append(data.Sums,
				usageOfProject{
					u, now.ProjectName(u.Project), page.Address(own, "project", string(u.Project), monthParam, data.Month),
				})
		}
		data.Pager = page.PagerOf(own, sums.Next, "More projects")
		return nil
	}
	sums, err := d.Ledger.UsageOfProjects(ctx, filter, ledger.Page{Limit: 1})
	if err != nil {
		return err
	}
	for _, u := range sums.Items {
		data.Sum = &usageOfProject{u, now.ProjectName(u.Project), ""}
	}
	list, err := d.Ledger.Usage(ctx, filter, at)
	for _, u := range list.Items {
		data.Resources = append(data.Resources, usageOfResource{u, now.Datacenter(u.Datacenter).Name})
	}
	data.Pager = page.PagerOf(own, list.Next, "More resources")
	return err
}

// monthsUntil lists the last months, the newest first, and then all months together.
func monthsUntil(now time.Time) (all []string) {
	first := time.Date(now.UTC().Year(), now.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	for n := range months {
		all = append(all, first.AddDate(0, -n, 0).Format(monthForm))
	}
	return append(all, allMonths)
}

// usagePage is the body of the page.
type usagePage struct {
	snapshot.Selection
	Month     string
	Months    []string
	Sums      []usageOfProject // by project, if no project is chosen
	Sum       *usageOfProject  // sum of the chosen project, nil if it has no usage
	Resources []usageOfResource
	Command   string
	Pager     page.Pager
}

// usageOfProject is the usage of a project.
type usageOfProject struct {
	ledger.ProjectUsage
	Name string
	List string // address of the list of its resources
}

// usageOfResource is the usage of a resource.
type usageOfResource struct {
	ledger.Usage
	DatacenterName string
}

// usageCommand returns the command with the same result as the page.
func usageCommand(data usagePage, now *snapshot.Snapshot) string {
	month := data.Month
	if month == allMonths {
		month = `""`
	}
	command := "writ usage --month " + month
	if data.Project == "" {
		return command + " --by project"
	}
	word := now.ProjectWord(data.Project)
	if word == "" {
		return ""
	}
	return command + " --project " + word
}

// used formats usage in the units of `writ usage`.
func used(u writ.Used) []string {
	const hour, gib = 3600, 1 << 30
	return []string{
		fmt.Sprintf("%.2f", float64(u.CPUSeconds)/hour), fmt.Sprintf("%.2f", float64(u.MemoryMiBSeconds)/hour/1024),
		fmt.Sprintf("%.2f", float64(u.DiskGiBSeconds)/hour), fmt.Sprintf("%.3f", float64(u.Received)/gib),
		fmt.Sprintf("%.3f", float64(u.Sent)/gib),
	}
}
