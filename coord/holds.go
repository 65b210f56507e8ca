package coord

import (
	"context"
	"slices"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
	"writ/coord/live"
	"writ/identity"
	"writ/supervisor/link"
)

// ListHolds asks datacenters for their holds. Readers of some projects get the holds of these projects and those of a
// whole datacenter.
func (h handlers) ListHolds(ctx context.Context, r api.ListHoldsRequestObject) (api.ListHoldsResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	who := access.ViewerOf(ctx)
	all, err := h.c.live.Holds(ctx, only)
	for i := range all {
		all[i].Holds = slices.DeleteFunc(all[i].Holds, func(d api.Hold) bool { return d.Project != "" && !who.Reads(d.Project) })
	}
	return api.ListHolds200JSONResponse{Items: all}, err
}

// GetHoldStanding asks a datacenter for the state of its holds. Its signed answer is passed on unchanged, so the
// request must not contain a project that the reader may not read.
func (h handlers) GetHoldStanding(ctx context.Context, r api.GetHoldStandingRequestObject) (api.GetHoldStandingResponseObject, error) {
	nonce, err := nonceOf(r.Params.Nonce)
	if err != nil {
		return nil, err
	}
	if err := mayRead(access.ViewerOf(ctx), r.Params.Project); err != nil {
		return nil, err
	}
	id, err := h.datacenter(ctx, r.Datacenter)
	if err != nil {
		return nil, err
	}
	answer, err := live.Ask[link.StandingAnswer](ctx, h.c.live, id, link.VerbHoldStanding, link.StandingOfHolds{Projects: r.Params.Project, Nonce: nonce})
	return api.GetHoldStanding200JSONResponse{Proof: answer.Proof}, err
}

// mayRead returns an error unless the viewer may read all projects of the list.
func mayRead(who *access.Viewer, projects []writ.ProjectID) error {
	for _, p := range projects {
		switch {
		case who.Reads(p):
		case p == identity.AllProjects:
			return writ.Errorf(writ.CodeRoleMissing, "the list covers all projects, and you may read only some of them").WithHint("name these")
		default:
			return noProject(string(p), nil)
		}
	}
	return nil
}
