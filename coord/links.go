package coord

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/link"
)

// sink stores the events of links in the ledger and wakes the waiters.
type sink struct{ c *Coordinator }

func (s sink) LastEvent(ctx context.Context, datacenter writ.DatacenterID, journal string) (int64, time.Time, error) {
	return s.c.Ledger.LastEvent(ctx, datacenter, journal)
}

func (s sink) StoreEvents(ctx context.Context, datacenter writ.DatacenterID, events []writ.Event) error {
	if err := s.c.shares.check(ctx, s.c, datacenter); err != nil {
		return err
	}
	setReasons(events)
	if err := s.c.Ledger.StoreEvents(ctx, datacenter, events); err != nil {
		return err
	}
	s.c.metrics.events.Add(float64(len(events)))
	s.c.news.Wake()
	return nil
}

// answer handles the requests of supervisors.
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

// authenticate verifies that a supervisor has the key of its datacenter in the roster.
func (c *Coordinator) authenticate(ctx context.Context, hello link.Hello, nonce []byte) error {
	roster, err := c.rosters.Newest(ctx)
	if err != nil {
		return err
	}
	d := roster.Datacenter(hello.Datacenter)
	if d == nil {
		return writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter %s", hello.Datacenter).WithHint("a root operator adds it with `writ dc add`")
	}
	for _, address := range c.addresses.List() {
		if ed25519.Verify(d.SupervisorKey, identity.LinkHelloText(nonce, address, hello.Datacenter, hello.Journal), hello.Signature) {
			return nil
		}
	}
	return writ.Errorf(writ.CodeSignatureInvalid, "the hello is not signed by the key of the datacenter %s for the address %s", d.Name, c.PublicURL).
		WithHint("the supervisor must dial exactly this address, and have the key that the roster names")
}

// welcome returns the first frame to a supervisor: the roster version and the other coordinators.
func (c *Coordinator) welcome(ctx context.Context, hello link.Hello) (link.Welcome, error) {
	roster, err := c.rosters.Newest(ctx)
	if err != nil {
		return link.Welcome{}, err
	}
	if hello.Roster > roster.Version {
		if times, say := c.lines.Say("newer roster "+string(hello.Datacenter), time.Now()); say {
			c.Log.WarnContext(ctx, "a datacenter has a newer roster than this coordinator", "dc", hello.Datacenter, "version", hello.Roster,
				"here", roster.Version, "times", times)
		}
	}
	return link.Welcome{Roster: roster.Version, Coordinators: c.Coordinators}, nil
}

// endStrangers ends the links of supervisors whose key no longer belongs to their datacenter in the next roster.
func (c *Coordinator) endStrangers(previous, next *identity.Roster) {
	if previous == nil {
		return
	}
	for _, s := range c.links.Sessions() {
		was, is := previous.Datacenter(s.Hello.Datacenter), next.Datacenter(s.Hello.Datacenter)
		if was != nil && (is == nil || !is.SupervisorKey.Equal(was.SupervisorKey)) {
			s.End(fmt.Errorf("roster %d gives the datacenter to another key", next.Version))
		}
	}
}

// rosterFrame is the size of a list of rosters, in bytes, after which no roster is added. With the largest roster at
// its end and a third more for base64, the list fits into a frame of a link.
const rosterFrame = 32 << 10

// rostersAfter returns the links that lead from a version towards the newest roster, for one frame.
func (c *Coordinator) rostersAfter(ctx context.Context, version int) (link.Rosters, error) {
	links, err := c.rosters.PathWithin(ctx, version, rosterFrame)
	return link.Rosters{Signed: links}, err
}

// pushRosters sends a datacenter its missing roster versions and returns the version that it then has.
func (c *Coordinator) pushRosters(ctx context.Context, s *link.Session, have int) (int, error) {
	for {
		lacking, err := c.rostersAfter(ctx, have)
		if err != nil || len(lacking.Signed) == 0 {
			return have, err
		}
		var now link.RosterVersion
		if err := s.Request(ctx, link.VerbRoster, lacking, &now, nil); err != nil {
			return have, err
		}
		if now.Version <= have {
			return have, writ.Errorf(writ.CodeRosterInvalid, "the datacenter stays at version %d of the roster", now.Version)
		}
		have = now.Version
	}
}

// ask sends a request to a datacenter and decodes the answer. It rechecks the caller's rights before it returns the
// answer.
func ask[T any](ctx context.Context, c *Coordinator, datacenter writ.DatacenterID, verb link.Verb, params any) (T, error) {
	var answer, none T
	err := c.links.Request(ctx, datacenter, verb, params, &answer, nil)
	if err == nil {
		err = c.gate.Still(ctx)
	}
	if err != nil {
		return none, err
	}
	return answer, nil
}

// ofRun sends a request to the datacenter of a run. The error is NOT_FOUND if the run is unknown, or if its datacenter
// has not accepted it yet.
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

// reply is the answer of one datacenter, or its error.
type reply[T any] struct {
	writ.Datacenter
	answer T
	err    error
}

const askWithin = 5 * time.Second

// askAll requests a list from all datacenters concurrently, or from only one. A datacenter that fails has an empty
// list.
func askAll[T any](ctx context.Context, c *Coordinator, only writ.DatacenterID, verb link.Verb, params any) ([]reply[[]T], error) {
	answers, err := askEach[[]T](ctx, c, only, verb, params)
	for i := range answers {
		if answers[i].answer == nil {
			answers[i].answer = []T{}
		}
	}
	return answers, err
}

// askEach sends a request to all datacenters concurrently, or to only one.
func askEach[T any](ctx context.Context, c *Coordinator, only writ.DatacenterID, verb link.Verb, params any) ([]reply[T], error) {
	return askEachWithin[T](ctx, c, askWithin, only, verb, params)
}

// askEachWithin is askEach with its own limit for the wait. The limit does not include the read of the ledger.
func askEachWithin[T any](ctx context.Context, c *Coordinator, within time.Duration, only writ.DatacenterID, verb link.Verb, params any) ([]reply[T], error) {
	datacenters, err := c.Ledger.Datacenters(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
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
