package live

import (
	"context"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// Holds asks all datacenters, or only one, for their holds. Datacenters of earlier versions have no holds.
func (v *View) Holds(ctx context.Context, only writ.DatacenterID) ([]api.DatacenterHolds, error) {
	answers, err := All[link.Hold](ctx, v, only, link.VerbHolds, link.Holds{})
	return api.Views(answers, func(a Reply[[]link.Hold]) api.DatacenterHolds {
		shown := api.DatacenterHolds{Datacenter: a.ID, Name: a.Name, Holds: api.Views(a.Answer, holdView)}
		if writ.CodeOf(a.Err) != writ.CodeVerbUnsupported {
			shown.Error = writ.AsError(a.Err)
		}
		return shown
	}), err
}

func holdView(h link.Hold) api.Hold {
	return api.Hold{
		Project: h.Project, ProjectName: h.ProjectName, Deployment: h.Deployment, Operation: h.Operation, Held: h.Held,
		Exempt: h.Exempt, Revision: h.Revision, ByOperator: h.ByOperator, Decided: h.Decided,
	}
}
