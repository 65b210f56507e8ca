package coord

import (
	"context"
	"slices"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// ListHolds asks datacenters what is on hold there. Readers of some projects see what is about these, and what is about all of a datacenter.
func (h handlers) ListHolds(ctx context.Context, r api.ListHoldsRequestObject) (api.ListHoldsResponseObject, error) {
	only, err := h.datacenter(ctx, r.Params.Datacenter)
	if err != nil {
		return nil, err
	}
	who := viewerFrom(ctx)
	all, err := h.c.Holds(ctx, only)
	for i := range all {
		all[i].Holds = slices.DeleteFunc(all[i].Holds, func(d api.Hold) bool { return d.Project != "" && !who.reads(d.Project) })
	}
	return api.ListHolds200JSONResponse{Items: all}, err
}

// Holds asks datacenters what is on hold there, all of them or one. Those of earlier versions have nothing on hold.
func (c *Coordinator) Holds(ctx context.Context, only writ.DatacenterID) ([]api.DatacenterHolds, error) {
	answers, err := askAll[link.Hold](ctx, c, only, link.VerbHolds, link.Holds{})
	return views(answers, func(a reply[[]link.Hold]) api.DatacenterHolds {
		v := api.DatacenterHolds{Datacenter: a.ID, Name: a.Name, Holds: views(a.answer, holdView)}
		if writ.CodeOf(a.err) != writ.CodeVerbUnsupported {
			v.Error = writ.AsError(a.err)
		}
		return v
	}), err
}

func holdView(h link.Hold) api.Hold {
	return api.Hold{
		Project: h.Project, ProjectName: h.ProjectName, Deployment: h.Deployment, Operation: h.Operation, Held: h.Held, Exempt: h.Exempt,
		Revision: h.Revision, ByOperator: h.ByOperator, Decided: h.Decided,
	}
}
