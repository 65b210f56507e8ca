package live

import (
	"context"
	"slices"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// Holds asks all datacenters, or the datacenter `only`, for their holds. Datacenters of earlier versions have no holds.
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

// Queues asks all datacenters for the depth of their queues. If a datacenter does not answer, its entry has the error.
func (v *View) Queues(ctx context.Context) ([]api.DatacenterQueues, error) {
	answers, err := v.QueuesWithAges(ctx)
	return api.Views(answers, func(a Reply[[]link.QueueDepth]) api.DatacenterQueues {
		depth := func(q link.QueueDepth) writ.QueueDepth { return q.QueueDepth }
		return api.DatacenterQueues{
			Datacenter: a.ID, Name: a.Name, Queues: api.Views(a.Answer, depth), Error: writ.AsError(a.Err),
		}
	}), err
}

// QueuesWithAges is Queues with the age of the oldest calls. Datacenters of earlier versions report no ages.
func (v *View) QueuesWithAges(ctx context.Context) ([]Reply[[]link.QueueDepth], error) {
	return All[link.QueueDepth](ctx, v, "", link.VerbQueues, link.Queues{})
}

// Secrets asks all datacenters, or the datacenter `only`, for the secrets of some projects. An empty list means all
// projects.
func (v *View) Secrets(
	ctx context.Context, only writ.DatacenterID, projects []writ.ProjectID,
) ([]api.DatacenterSecrets, error) {
	var asked link.Secrets // a request can name one project, or none for all projects
	if len(projects) == 1 {
		asked.Project = projects[0]
	}
	answers, err := All[writ.Secret](ctx, v, only, link.VerbSecrets, asked)
	for i := range answers { // a datacenter must not decide about the reader's rights, so its answer is filtered
		answers[i].Answer = slices.DeleteFunc(answers[i].Answer,
			func(s writ.Secret) bool { return len(projects) > 0 && !slices.Contains(projects, s.Project) })
	}
	return api.Views(answers, func(a Reply[[]writ.Secret]) api.DatacenterSecrets {
		return api.DatacenterSecrets{Datacenter: a.ID, Name: a.Name, Secrets: a.Answer, Error: writ.AsError(a.Err)}
	}), err
}
