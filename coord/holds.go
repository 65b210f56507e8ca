package coord

import (
	"context"
	"slices"

	"writ/coord/access"
	"writ/coord/api"
	"writ/coord/api/apiserver"
)

// ListHolds asks datacenters for their holds. Readers of some projects get the holds of these projects and the holds of
// whole datacenters.
func (h copyHandlers) ListHolds(
	ctx context.Context, r apiserver.ListHoldsRequestObject,
) (apiserver.ListHoldsResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	who := access.ViewerOf(ctx)
	all, err := h.c.live.Holds(ctx, only)
	for i := range all {
		all[i].Holds = slices.DeleteFunc(all[i].Holds,
			func(d api.Hold) bool { return d.Project != "" && !who.Reads(d.Project) })
	}
	return apiserver.ListHolds200JSONResponse{Items: all}, err
}
