package supervisor

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/chain"
	"writ/internal/failpoint"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// anyTime disables the expiry check of rosters. An adopted roster stays in force until its successor comes, and a chain
// must stay valid forever. The verifier ensures that an expired roster admits no new work.
var anyTime time.Time

// loadRosters verifies the chain of rosters in the journal against the pin, and then adopts newer rosters from outside.
func (s *Supervisor) loadRosters(ctx context.Context, outside [][]byte) error {
	var links []chain.Entry
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		links, err = tx.RosterLinks()
		return err
	})
	if err != nil {
		return fmt.Errorf("load rosters: %w", err)
	}
	if len(links) > 0 {
		roster, err := identity.LoadRosters(s.Pin, links, s.notingAddresses(s.rosterText(ctx)))
		if err != nil {
			return fmt.Errorf("load rosters: %w", err)
		}
		s.roster.Store(roster)
	} else if len(outside) == 0 {
		return writ.Errorf(writ.CodeRosterInvalid, "the supervisor has no roster").
			WithHint("give it the coordinator's address")
	}
	_, err = s.AdoptRosters(ctx, outside)
	return err
}

// rosterText returns a function that reads the signed text of a version. Its error is ROSTER_INVALID for a version
// without a text.
func (s *Supervisor) rosterText(ctx context.Context) func(version int) ([]byte, error) {
	return func(version int) (signed []byte, err error) {
		err = s.Journal.Read(ctx, func(tx *journal.Tx) error {
			signed, err = tx.Roster(version)
			return err
		})
		if err == nil && signed == nil {
			err = writ.Errorf(writ.CodeRosterInvalid, "the journal has no version %d of the roster any more", version).
				WithHint("bring the journal back from a backup")
		}
		return signed, err
	}
}

// notingAddresses wraps text. It records the coordinator addresses of each roster that text reads. Every version that
// changes an address is a waypoint.
func (s *Supervisor) notingAddresses(text func(version int) ([]byte, error)) func(version int) ([]byte, error) {
	return func(version int) ([]byte, error) {
		signed, err := text(version)
		if err != nil {
			return nil, err
		}
		if text, _, err := identity.Split(signed); err == nil {
			if r, err := identity.ParseRoster(text); err == nil {
				s.former.note(r)
			}
		}
		return signed, nil
	}
}

// endsEvery is the interval at which the supervisor checks its roster for approaching expiries.
const endsEvery = time.Hour

// warnOfEnds logs approaching expiries of the roster and of roles, until ctx ends. A datacenter without a coordinator
// has no other way to report them.
func (s *Supervisor) warnOfEnds(ctx context.Context) error {
	warned := make(identity.Warned)
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	for {
		warned.Log(ctx, s.Log, s.roster.Load().Expiries(), s.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// AdoptRosters verifies and adopts links that follow the newest roster, and skips known rosters. It returns the version
// in force afterwards. Without a roster, the first link is verified against the pin.
func (s *Supervisor) AdoptRosters(ctx context.Context, links [][]byte) (int, error) {
	s.adopting.Lock() // two coordinators may send the same roster at the same time
	defer s.adopting.Unlock()
	for _, link := range links {
		current := s.roster.Load()
		if current == nil {
			first, err := identity.VerifyRosters(s.Pin, [][]byte{link}, anyTime)
			if err != nil {
				return 0, err
			}
			if err := s.adopt(ctx, first, link); err != nil {
				return 0, err
			}
			continue
		}
		if current.Has(link) {
			continue
		}
		next, err := identity.VerifyRoster(current, link, anyTime)
		if err != nil {
			return current.Version, err
		}
		if err := s.adopt(ctx, next, link); err != nil {
			return current.Version, err
		}
	}
	if r := s.roster.Load(); r != nil {
		return r.Version, nil
	}
	return 0, nil
}

// adopt brings a verified roster into force. It is written to the journal first, together with the record of the open
// runs that it has not checked. Run checks these runs.
func (s *Supervisor) adopt(ctx context.Context, roster *identity.Roster, link []byte) error {
	signed := chain.Signed(link)
	err := s.Journal.Write(failpoint.At(ctx, failpoint.RosterAdopted),
		func(tx *journal.Tx) error { return tx.AddRoster(roster, signed) })
	if err != nil {
		return fmt.Errorf("keep roster %d: %w", roster.Version, err)
	}
	s.former.note(roster)
	s.roster.Store(roster)
	s.Log.Info("roster adopted", "version", roster.Version)
	if s.Adopted != nil {
		if err := s.Adopted(link); err != nil {
			s.Log.Warn("store a roster; it is in the journal only", "version", roster.Version, "err", err)
		}
	}
	s.wakeRecheck()
	select {
	case s.relink <- struct{}{}:
	default:
	}
	if s.fleet == nil {
		return nil // before Open has finished; Run does the rest
	}
	for _, node := range s.fleet.Members.Serving() {
		s.outbox.Control(failpoint.At(ctx, failpoint.RosterSent), writ.Control{Node: node, Roster: roster.Version})
	}
	return nil
}

const (
	// recheckBatch is the number of runs that are checked against a new roster before the progress is written.
	recheckBatch = 256
	// recheckDelay is the pause before the next attempt after a failed check.
	recheckDelay = time.Second
)

// wakeRecheck signals recheckRuns that a new roster is in force.
func (s *Supervisor) wakeRecheck() {
	select {
	case s.unchecked <- struct{}{}:
	default:
	}
}

// recheckRuns checks the open runs at the start, and whenever a roster comes into force, until ctx ends. The sender of
// a roster may disconnect once it is on disk, so failed checks are repeated here until none is left.
func (s *Supervisor) recheckRuns(ctx context.Context) error {
	said := ""
	for {
		var again <-chan time.Time
		err := s.cancelRevoked(ctx)
		switch {
		case err == nil:
			said = ""
		case ctx.Err() == nil:
			again = time.After(recheckDelay)
			if said != err.Error() && s.Journal.Fault() == nil {
				said = err.Error()
				s.Log.Warn("check open runs against the roster; trying again", "version", s.roster.Load().Version, "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.unchecked:
		case <-again:
		}
	}
}

// cancelRevoked cancels the open runs whose signer has lost the right to run them. The journal records by which roster
// each run was last approved. Neither a crash nor an error after the adoption of a roster therefore spares a run, and a
// start without a new roster checks nothing. If a run cannot be read, the others are still checked; the last such error
// is returned.
func (s *Supervisor) cancelRevoked(ctx context.Context) error {
	verifier := s.verifier()
	var last journal.RosterCheck
	var unread error
	for {
		unchecked, err := s.uncheckedRuns(ctx, verifier, last)
		if err != nil || len(unchecked) == 0 {
			return cmp.Or(err, unread)
		}
		if err := s.checkSome(ctx, verifier, unchecked); err != nil {
			unread = err
		}
		last = unchecked[len(unchecked)-1]
	}
}

// uncheckedRuns returns the next batch of runs after last that the roster of the verifier has not approved.
func (s *Supervisor) uncheckedRuns(
	ctx context.Context, verifier *identity.Verifier, last journal.RosterCheck,
) (unchecked []journal.RosterCheck, err error) {
	err = s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		unchecked, err = tx.UncheckedRuns(verifier.Roster.Version, last, recheckBatch)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list unchecked runs: %w", err)
	}
	return unchecked, nil
}

// checkSome checks runs and records the approved ones.
func (s *Supervisor) checkSome(
	ctx context.Context, verifier *identity.Verifier, unchecked []journal.RosterCheck,
) error {
	var good []writ.RunID
	var unread error
	for _, j := range unchecked {
		switch goesOn, err := s.mayGoOn(ctx, verifier, j.Run); {
		case err != nil:
			unread = fmt.Errorf("check run %s: %w", j.Run, err)
		case goesOn:
			good = append(good, j.Run)
		}
	}
	if len(good) == 0 {
		return unread
	}
	err := s.Journal.Write(failpoint.At(ctx, failpoint.RunsChecked),
		func(tx *journal.Tx) error { return tx.SetChecked(verifier.Roster.Version, good...) })
	if err != nil {
		return fmt.Errorf("record checked runs: %w", err)
	}
	return unread
}

// mayGoOn reports whether a roster permits a run. If it does not, mayGoOn posts a stop to the run.
func (s *Supervisor) mayGoOn(ctx context.Context, verifier *identity.Verifier, id writ.RunID) (bool, error) {
	run, signed, err := s.programs.Submission(ctx, id)
	if err != nil || run == nil {
		return false, err
	}
	if err := s.programs.Verify(ctx, run, signed); writ.CodeOf(err) == writ.CodeRecordForged {
		s.steps.Post(id, mail.Mail{}) // its step ends it
		return false, nil
	} else if err != nil {
		return false, err
	}
	if why := s.programs.CheckSigner(verifier, run, signed); why != nil {
		s.steps.Post(id, mail.Mail{Stop: why})
		return false, nil
	}
	return true, nil
}

// inRoster returns an error unless the roster assigns this datacenter to this supervisor's key.
func (s *Supervisor) inRoster(r *identity.Roster) error {
	d := r.Datacenter(s.Datacenter)
	if d == nil {
		return writ.Errorf(writ.CodeDatacenterUnknown, "roster %d has no datacenter %s", r.Version, s.Datacenter).
			WithHint("add it with `writ dc add`")
	}
	if !d.SupervisorKey.Equal(s.Key.Public().(ed25519.PublicKey)) {
		return writ.Errorf(writ.CodeSignerUnknown, "the roster gives %s another supervisor key than the one here", d.Name).
			WithHint("use the data directory that the datacenter was added with")
	}
	return nil
}
