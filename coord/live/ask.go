package live

import (
	"context"
	"sync"
	"time"

	"writ"
	"writ/supervisor/link"
)

// Ask sends a request to a datacenter and decodes the answer. It rechecks the caller's rights before it returns the
// answer.
func Ask[T any](ctx context.Context, v *View, datacenter writ.DatacenterID, verb link.Verb, params any) (T, error) {
	var answer, none T
	err := v.Links.Request(ctx, datacenter, verb, params, &answer)
	if err == nil {
		err = v.Still(ctx)
	}
	if err != nil {
		return none, err
	}
	return answer, nil
}

// OfRun sends a request to the datacenter of a run. The error is NOT_FOUND if the run is unknown, or if its datacenter
// has not accepted it yet.
func OfRun[T any](ctx context.Context, v *View, id writ.RunID, verb link.Verb, params any) (answer T, err error) {
	run, err := v.Ledger.Run(ctx, id)
	if err != nil {
		return answer, err
	}
	if run.Accepted.IsZero() {
		return answer, writ.Errorf(writ.CodeNotFound, "the datacenter does not have the run: it is %s", run.State)
	}
	return Ask[T](ctx, v, run.Datacenter, verb, params)
}

// Reply is the answer of one datacenter, or its error.
type Reply[T any] struct {
	writ.Datacenter
	Answer T
	Err    error
}

const askWithin = 5 * time.Second

// All requests a list from all datacenters concurrently, or from the datacenter `only`. If a datacenter fails, its list
// is empty and Err is set.
func All[T any](
	ctx context.Context, v *View, only writ.DatacenterID, verb link.Verb, params any,
) ([]Reply[[]T], error) {
	answers, err := Each[[]T](ctx, v, only, verb, params)
	for i := range answers {
		if answers[i].Answer == nil {
			answers[i].Answer = []T{}
		}
	}
	return answers, err
}

// Each sends a request to all datacenters concurrently, or to the datacenter `only`. It waits at most askWithin.
func Each[T any](ctx context.Context, v *View, only writ.DatacenterID, verb link.Verb, params any) ([]Reply[T], error) {
	return EachWithin[T](ctx, v, askWithin, only, verb, params)
}

// EachWithin is Each with `within` as the limit of the wait. The limit does not include the read of the ledger.
func EachWithin[T any](
	ctx context.Context, v *View, within time.Duration, only writ.DatacenterID, verb link.Verb, params any,
) ([]Reply[T], error) {
	datacenters, err := v.Ledger.Datacenters(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var answers []Reply[T]
	for _, d := range datacenters {
		if only == "" || d.ID == only {
			answers = append(answers, Reply[T]{Datacenter: d.Datacenter})
		}
	}
	var asking sync.WaitGroup
	for i := range answers {
		a := &answers[i]
		asking.Go(func() { a.Answer, a.Err = Ask[T](ctx, v, a.ID, verb, params) })
	}
	asking.Wait()
	return answers, nil
}
