package coord

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"time"

	"writ"
	"writ/coord/delivery"
	"writ/coord/live"
	"writ/identity"
	"writ/supervisor/link"
)

// supervisors is the coordinator's end of the links: it admits supervisors, stores their events and answers them.
type supervisors struct{ c *Coordinator }

func (s supervisors) LastEvent(
	ctx context.Context, datacenter writ.DatacenterID, journal string,
) (int64, time.Time, error) {
	return s.c.Ledger.LastEvent(ctx, datacenter, journal)
}

func (s supervisors) StoreEvents(ctx context.Context, datacenter writ.DatacenterID, events []writ.Event) error {
	if err := s.c.shares.check(ctx, s.c, datacenter); err != nil {
		return err
	}
	live.BoundReasons(events)
	if err := s.c.Ledger.StoreEvents(ctx, datacenter, events); err != nil {
		return err
	}
	s.c.monitor.events.Add(float64(len(events)))
	s.c.news.Wake()
	return nil
}

// answer handles the requests of supervisors.
func (s supervisors) answer(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
	switch verb {
	case link.VerbRoster:
		var have link.RosterVersion
		if err := link.Decode(params, &have); err != nil {
			return nil, err
		}
		return delivery.RostersAfter(ctx, s.c.rosters, have.Version)
	default:
		return nil, writ.Errorf(writ.CodeVerbUnsupported, "a coordinator does not know the verb %q", verb)
	}
}

// authenticate verifies that a supervisor has the key of its datacenter in the roster.
func (s supervisors) authenticate(ctx context.Context, hello link.Hello, nonce []byte) error {
	roster, err := s.c.rosters.Newest(ctx)
	if err != nil {
		return err
	}
	d := roster.Datacenter(hello.Datacenter)
	if d == nil {
		return writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter %s", hello.Datacenter).
			WithHint("a root operator adds it with `writ dc add`")
	}
	for _, address := range s.c.addresses.List() {
		if ed25519.Verify(d.SupervisorKey, identity.LinkHelloText(nonce, address, hello.Datacenter, hello.Journal),
			hello.Signature) {
			return nil
		}
	}
	return writ.Errorf(writ.CodeSignatureInvalid,
		"the hello is not signed by the key of the datacenter %s for the address %s", d.Name, s.c.PublicURL).
		WithHint("the supervisor must dial exactly this address, and have the key that the roster names")
}

// welcome returns the first frame to a supervisor: the roster version and the other coordinators.
func (s supervisors) welcome(ctx context.Context, hello link.Hello) (link.Welcome, error) {
	roster, err := s.c.rosters.Newest(ctx)
	if err != nil {
		return link.Welcome{}, err
	}
	if hello.Roster > roster.Version {
		if times, say := s.c.lines.Say("newer roster "+string(hello.Datacenter), time.Now()); say {
			s.c.Log.WarnContext(ctx, "a datacenter has a newer roster than this coordinator", "dc", hello.Datacenter,
				"version", hello.Roster,
				"here", roster.Version, "times", times)
		}
	}
	return link.Welcome{Roster: roster.Version, Coordinators: s.c.Coordinators}, nil
}

// endStrangers ends the links of supervisors whose key no longer belongs to their datacenter in the next roster.
func (s supervisors) endStrangers(previous, next *identity.Roster) {
	if previous == nil {
		return
	}
	for _, session := range s.c.links.Sessions() {
		was, is := previous.Datacenter(session.Hello.Datacenter), next.Datacenter(session.Hello.Datacenter)
		if was != nil && (is == nil || !is.SupervisorKey.Equal(was.SupervisorKey)) {
			session.End(fmt.Errorf("roster %d gives the datacenter to another key", next.Version))
		}
	}
}
