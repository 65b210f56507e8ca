package coord

import (
	"context"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
	"writ/coord/api/apiserver"
	"writ/coord/live"
	"writ/identity"
	"writ/supervisor/link"
)

// GetStanding asks the datacenter of a run for the state of the run. The signed answer is returned unchanged.
func (h standingHandlers) GetStanding(
	ctx context.Context, r apiserver.GetStandingRequestObject,
) (apiserver.GetStandingResponseObject, error) {
	nonce, err := nonceOf(r.Params.Nonce)
	if err != nil {
		return nil, err
	}
	answer, err := live.OfRun[link.StandingAnswer](ctx, h.c.live, r.Run, link.VerbStanding,
		link.Standing{Run: r.Run, Nonce: nonce})
	return apiserver.GetStanding200JSONResponse{Proof: answer.Proof}, err
}

// GetNodeStanding asks a datacenter for the state of one of its nodes. The signed answer is returned unchanged.
func (h standingHandlers) GetNodeStanding(
	ctx context.Context, r apiserver.GetNodeStandingRequestObject,
) (apiserver.GetNodeStandingResponseObject, error) {
	proof, err := h.standing(ctx, r.Datacenter, r.Params.Nonce, link.VerbNodeStanding,
		func(nonce []byte) any { return link.StandingOfNode{Node: r.Node, Nonce: nonce} })
	return apiserver.GetNodeStanding200JSONResponse{Proof: proof}, err
}

// GetTokenStanding asks a datacenter for the state of its join tokens. The signed answer is returned unchanged.
func (h standingHandlers) GetTokenStanding(
	ctx context.Context, r apiserver.GetTokenStandingRequestObject,
) (apiserver.GetTokenStandingResponseObject, error) {
	proof, err := h.standing(ctx, r.Datacenter, r.Params.Nonce, link.VerbTokenStanding,
		func(nonce []byte) any { return link.StandingOfTokens{Nonce: nonce} })
	return apiserver.GetTokenStanding200JSONResponse{Proof: proof}, err
}

// GetHoldStanding asks a datacenter for the state of its holds. The signed answer is returned unchanged, so the request
// must not contain a project that the reader may not read.
func (h standingHandlers) GetHoldStanding(
	ctx context.Context, r apiserver.GetHoldStandingRequestObject,
) (apiserver.GetHoldStandingResponseObject, error) {
	if err := mayRead(access.ViewerOf(ctx), r.Params.Project); err != nil {
		return nil, err
	}
	proof, err := h.standing(ctx, r.Datacenter, r.Params.Nonce, link.VerbHoldStanding,
		func(nonce []byte) any { return link.StandingOfHolds{Projects: r.Params.Project, Nonce: nonce} })
	return apiserver.GetHoldStanding200JSONResponse{Proof: proof}, err
}

// standing asks a datacenter for a signed state. digits is the nonce of the client in hex.
func (h standingHandlers) standing(
	ctx context.Context, datacenter, digits string, verb link.Verb, paramsFor func(nonce []byte) any,
) ([]byte, error) {
	nonce, err := nonceOf(digits)
	if err != nil {
		return nil, err
	}
	id, err := h.datacenter(ctx, datacenter)
	if err != nil {
		return nil, err
	}
	answer, err := live.Ask[link.StandingAnswer](ctx, h.c.live, id, verb, paramsFor(nonce))
	return answer.Proof, err
}

// mayRead returns an error unless the viewer may read all projects of the list.
func mayRead(who *access.Viewer, projects []writ.ProjectID) error {
	for _, p := range projects {
		switch {
		case who.Reads(p):
		case p == identity.AllProjects:
			return writ.Errorf(writ.CodeRoleMissing, "the list covers all projects, and you may read only some of them").
				WithHint("name the projects that you may read")
		default:
			return noProject(string(p), nil)
		}
	}
	return nil
}

// ListAdoptions asks all datacenters for the roster version that they use. The signed answers are returned unchanged.
func (h standingHandlers) ListAdoptions(
	ctx context.Context, r apiserver.ListAdoptionsRequestObject,
) (apiserver.ListAdoptionsResponseObject, error) {
	nonce, err := nonceOf(r.Params.Nonce)
	if err != nil {
		return nil, err
	}
	answers, err := live.Each[link.AdoptedAnswer](ctx, h.c.live, "", link.VerbAdopted, link.Adopted{Nonce: nonce})
	return apiserver.ListAdoptions200JSONResponse{Items: api.Views(answers,
		func(a live.Reply[link.AdoptedAnswer]) api.DatacenterAdoption {
			return api.DatacenterAdoption{Datacenter: a.ID, Name: a.Name, Proof: a.Answer.Proof, Error: writ.AsError(a.Err)}
		})}, err
}
