package coord

import (
	"context"
	"slices"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/supervisor/link"
)

// ListHolds asks datacenters what is on hold there. Readers of some projects see what is about these, and what is about all of a datacenter.
func (h handlers) ListHolds(ctx context.Context, r api.ListHoldsRequestObject) (api.ListHoldsResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
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

// GetHoldStanding asks a datacenter what is on hold there. What it signs passes through as it is, so nothing is asked for that the reader may not see.
func (h handlers) GetHoldStanding(ctx context.Context, r api.GetHoldStandingRequestObject) (api.GetHoldStandingResponseObject, error) {
	nonce, err := nonceOf(r.Params.Nonce)
	if err != nil {
		return nil, err
	}
	if err := mayRead(viewerFrom(ctx), r.Params.Project); err != nil {
		return nil, err
	}
	id, err := h.datacenter(ctx, r.Datacenter)
	if err != nil {
		return nil, err
	}
	answer, err := ask[link.StandingAnswer](ctx, h.c, id, link.VerbHoldStanding, link.StandingOfHolds{Projects: r.Params.Project, Nonce: nonce})
	return api.GetHoldStanding200JSONResponse{Proof: answer.Proof}, err
}

// mayRead refuses a list of projects if a reader may not see all of them.
func mayRead(who *viewer, projects []writ.ProjectID) error {
	for _, p := range projects {
		switch {
		case who.reads(p):
		case p == identity.AllProjects:
			return writ.Errorf(writ.CodeRoleMissing, "the list is of all projects, and you may read some of them").WithHint("name these")
		default:
			return noProject(string(p), nil)
		}
	}
	return nil
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
