package coord

import (
	"context"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/api/apiserver"
	"writ/identity"
	"writ/ledger"
)

// ListUsage lists the summed usage of resources.
func (h copyHandlers) ListUsage(
	ctx context.Context, r apiserver.ListUsageRequestObject,
) (apiserver.ListUsageResponseObject, error) {
	p := r.Params
	filter, err := monthOf(api.Value(p.Month))
	if err != nil {
		return nil, err
	}
	s, err := h.selected(ctx, p.Limit, p.Cursor, p.Datacenter, p.Project)
	if err != nil {
		return nil, err
	}
	filter.Datacenter, filter.Projects = s.datacenter, s.projects
	roster, err := h.c.rosters.Newest(ctx)
	if err != nil {
		return nil, err
	}
	list, err := h.c.Ledger.Usage(ctx, filter, s.page)
	view := func(u ledger.Usage) api.Usage { return usageView(roster, u) }
	return apiserver.ListUsage200JSONResponse{Items: api.Views(list.Items, view), NextCursor: list.Next}, err
}

// monthOf selects the hours of a month; "" selects all.
func monthOf(text string) (filter ledger.UsageFilter, err error) {
	if text == "" {
		return filter, nil
	}
	if filter.From, err = time.Parse("2006-01", text); err != nil {
		return filter, writ.Errorf(writ.CodeBadRequest, "month: %q is not a valid month", text).
			WithHint("write it as 2026-11")
	}
	filter.Until = filter.From.AddDate(0, 1, 0)
	return filter, nil
}

// usageView adds the current names of project and tenant to usage.
func usageView(roster *identity.Roster, u ledger.Usage) api.Usage {
	v := api.Usage{
		Project: u.Project, Kind: u.Kind, Name: u.Name, UID: u.UID, Datacenter: u.Datacenter, First: u.First, Last: u.Last,
		CPUSeconds: u.CPUSeconds, MemoryMibSeconds: u.MemoryMiBSeconds, DiskGibSeconds: u.DiskGiBSeconds,
		Received: u.Received, Sent: u.Sent,
	}
	if p := roster.Project(u.Project); p != nil {
		v.ProjectName, v.Tenant = p.Name, identity.TenantName(roster, p)
	}
	return v
}
