package coord

import (
	"context"

	"writ/coord/api"
	"writ/coord/api/apiserver"
	"writ/supervisor/link"
)

// ListBoots asks datacenters for the machines that boot there. The coordinator does not store the answers.
func (h copyHandlers) ListBoots(
	ctx context.Context, r apiserver.ListBootsRequestObject,
) (apiserver.ListBootsResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	all, err := h.c.live.Boots(ctx, only, link.MaxBootMachines)
	return apiserver.ListBoots200JSONResponse{Items: all}, err
}
