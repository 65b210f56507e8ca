package live

import (
	"context"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

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
