package client

import (
	"context"

	"writ"
	"writ/coord/api"
	"writ/identity"
)

// Holds asks a datacenter what is on hold there. A coordinator that lies about it gets no more than a statement that its datacenter refuses: it names
// what the person said, and a revision.
func (c *Client) Holds(ctx context.Context, datacenter writ.DatacenterID) (identity.Holds, error) {
	list, err := api.Answer[api.HoldList](c.API.ListHolds(ctx, &api.ListHoldsParams{Datacenter: string(datacenter)}))
	if err != nil {
		return nil, err
	}
	var all identity.Holds
	for _, d := range list.Items {
		if d.Datacenter != datacenter {
			continue
		}
		if d.Error != nil {
			return nil, d.Error
		}
		all = HoldsOf(d.Holds)
	}
	return all, nil
}

// HoldsOf are the decisions that the API lists.
func HoldsOf(list []api.Hold) (all identity.Holds) {
	for _, h := range list {
		all = append(all, identity.Hold{
			Scope: identity.Scope{Project: h.Project, Deployment: h.Deployment, Operation: h.Operation}, ProjectName: h.ProjectName,
			Held: h.Held, Revision: h.Revision, ByOperator: h.ByOperator, Decided: h.Decided,
		})
	}
	return all
}
