package coord

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"writ"
	"writ/supervisor/link"
)

// sink is the ledger as the end of the links' events, with a bell.
type sink struct{ c *Coordinator }

func (s sink) LastEvent(ctx context.Context, datacenter writ.DatacenterID, journal string) (int64, time.Time, error) {
	return s.c.Ledger.LastEvent(ctx, datacenter, journal)
}

func (s sink) StoreEvents(ctx context.Context, datacenter writ.DatacenterID, events []writ.Event) error {
	if err := s.c.shares.check(ctx, s.c, datacenter); err != nil {
		return err
	}
	if err := s.c.Ledger.StoreEvents(ctx, datacenter, events); err != nil {
		return err
	}
	s.c.metrics.events.Add(float64(len(events)))
	s.c.news.wake()
	return nil
}

// answer answers what supervisors ask.
func (c *Coordinator) answer(ctx context.Context, verb link.Verb, params json.RawMessage, _ func(stage, detail string)) (any, error) {
	switch verb {
	case link.VerbRoster:
		var have link.RosterVersion
		if err := link.Decode(params, &have); err != nil {
			return nil, err
		}
		return c.rostersAfter(ctx, have.Version)
	default:
		return nil, writ.Errorf(writ.CodeVerbUnsupported, "a coordinator does not know the verb %q", verb)
	}
}

// ask asks a datacenter and reads its answer, which is nobody's any more whose role ended meanwhile.
func ask[T any](ctx context.Context, c *Coordinator, datacenter writ.DatacenterID, verb link.Verb, params any) (T, error) {
	var answer, none T
	err := c.links.Request(ctx, datacenter, verb, params, &answer, nil)
	if err == nil {
		err = c.still(ctx)
	}
	if err != nil {
		return none, err
	}
	return answer, nil
}

// ofRun asks the datacenter of a run, so an unknown run is NOT_FOUND, and one that its datacenter does not have yet says so.
func ofRun[T any](ctx context.Context, c *Coordinator, id writ.RunID, verb link.Verb, params any) (answer T, err error) {
	run, err := c.Ledger.Run(ctx, id)
	if err != nil {
		return answer, err
	}
	if run.Accepted.IsZero() {
		return answer, writ.Errorf(writ.CodeNotFound, "the datacenter does not have the run: it is %s", run.State)
	}
	return ask[T](ctx, c, run.Datacenter, verb, params)
}

// reply is what a datacenter answered, or why it did not.
type reply[T any] struct {
	writ.Datacenter
	answer T
	err    error
}

const askWithin = 5 * time.Second

// askAll asks all datacenters at the same time for a list, or only one of them. Who does not answer has an empty one.
func askAll[T any](ctx context.Context, c *Coordinator, only writ.DatacenterID, verb link.Verb, params any) ([]reply[[]T], error) {
	answers, err := askEach[[]T](ctx, c, only, verb, params)
	for i := range answers {
		if answers[i].answer == nil {
			answers[i].answer = []T{}
		}
	}
	return answers, err
}

// askEach asks all datacenters at the same time, or only one of them.
func askEach[T any](ctx context.Context, c *Coordinator, only writ.DatacenterID, verb link.Verb, params any) ([]reply[T], error) {
	datacenters, err := c.Ledger.Datacenters(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var answers []reply[T]
	for _, d := range datacenters {
		if only == "" || d.ID == only {
			answers = append(answers, reply[T]{Datacenter: d.Datacenter})
		}
	}
	var asking sync.WaitGroup
	for i := range answers {
		a := &answers[i]
		asking.Go(func() { a.answer, a.err = ask[T](ctx, c, a.ID, verb, params) })
	}
	asking.Wait()
	return answers, nil
}
