package supervisor

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/supervisor/journal"
)

// anyTime lets a roster count although it has expired: what was adopted stays the truth until a successor comes, and a chain must
// hold for ever. That an expired roster admits no new work is the verifier's business.
var anyTime time.Time

// loadRosters reads the rosters of the journal, checks them again against the pin, and adopts newer ones from outside.
func (s *Supervisor) loadRosters(ctx context.Context, outside [][]byte) error {
	var stored [][]byte
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		stored, err = tx.Rosters(0)
		return err
	})
	if err != nil {
		return fmt.Errorf("load rosters: %w", err)
	}
	if len(stored) > 0 {
		roster, err := identity.VerifyRosters(s.Pin, stored, anyTime)
		if err != nil {
			return fmt.Errorf("load rosters: %w", err)
		}
		s.roster.Store(roster)
	} else if len(outside) == 0 {
		return writ.Errorf(writ.CodeRosterInvalid, "the supervisor has no roster").WithHint("give it the coordinator's address")
	}
	_, err = s.AdoptRosters(ctx, outside)
	return err
}

// AdoptRosters adopts the rosters that come after the newest one here; others are passed over. It returns the version that is in force
// then. Rosters before the first one are checked against the pin.
func (s *Supervisor) AdoptRosters(ctx context.Context, signed [][]byte) (int, error) {
	s.adopting.Lock() // two coordinators bring the same one at the same time
	defer s.adopting.Unlock()
	for _, text := range signed {
		current := s.roster.Load()
		if current == nil {
			first, err := identity.VerifyRosters(s.Pin, [][]byte{text}, anyTime)
			if err != nil {
				return 0, err
			}
			if err := s.adopt(ctx, first, text); err != nil {
				return 0, err
			}
			continue
		}
		if s.isKnown(ctx, text) {
			continue
		}
		next, err := identity.VerifyRoster(current, text, anyTime)
		if err != nil {
			return current.Version, err
		}
		if err := s.adopt(ctx, next, text); err != nil {
			return current.Version, err
		}
	}
	if r := s.roster.Load(); r != nil {
		return r.Version, nil
	}
	return 0, nil
}

// isKnown reports whether the journal has exactly this roster.
func (s *Supervisor) isKnown(ctx context.Context, text []byte) bool {
	known := false
	_ = s.Journal.Read(ctx, func(tx *journal.Tx) error { // an error means that it is checked, and refused, as a successor
		stored, err := tx.Rosters(0)
		known = slices.ContainsFunc(stored, func(b []byte) bool { return bytes.Equal(b, text) })
		return err
	})
	return known
}

// adopt puts a verified roster into force. Open runs whose signer lost the right are cancelled.
func (s *Supervisor) adopt(ctx context.Context, roster *identity.Roster, text []byte) error {
	err := s.Journal.Write(failpoint.At(ctx, failpoint.RosterAdopted), func(tx *journal.Tx) error { return tx.AddRoster(roster.Version, text) })
	if err != nil {
		return fmt.Errorf("keep roster %d: %w", roster.Version, err)
	}
	s.roster.Store(roster)
	s.Log.Info("roster adopted", "version", roster.Version)
	if s.fleet == nil {
		return nil // Run does the rest
	}
	for _, node := range s.fleet.serving() {
		s.control(failpoint.At(ctx, failpoint.RosterSent), writ.Control{Node: node, Roster: roster.Version})
	}
	s.cancelRevoked(ctx)
	return nil
}

// judgeAtOnce is how many runs are judged by a new roster between two notes of how far it got.
const judgeAtOnce = 256

// cancelRevoked cancels the open runs whose signer may not have them run any more. The journal knows by which roster each run was found good
// last, so that a crash after the adoption of a roster saves no run, and a start without a new one asks nothing.
func (s *Supervisor) cancelRevoked(ctx context.Context) {
	verifier := s.verifier()
	var last journal.Judged
	for more := true; more && ctx.Err() == nil; {
		var err error
		if last, more, err = s.judgeSome(ctx, verifier, last); err != nil && ctx.Err() == nil {
			s.Log.Error("not all open runs are judged by the roster; the rest is at the next start", "version", verifier.Roster.Version, "err", err)
			return
		}
	}
}

// judgeSome judges the next runs after last, and reports the last of them and whether there may be more.
func (s *Supervisor) judgeSome(ctx context.Context, verifier *identity.Verifier, last journal.Judged) (journal.Judged, bool, error) {
	var unjudged []journal.Judged
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		unjudged, err = tx.UnjudgedRuns(verifier.Roster.Version, last, judgeAtOnce)
		return err
	})
	if err != nil || len(unjudged) == 0 {
		return last, false, err
	}
	var good []writ.RunID
	for _, j := range unjudged {
		if s.mayGoOn(ctx, verifier, j.Run) {
			good = append(good, j.Run)
		}
	}
	err = s.Journal.Write(failpoint.At(ctx, failpoint.RunsJudged), func(tx *journal.Tx) error { return tx.SetJudged(verifier.Roster.Version, good...) })
	return unjudged[len(unjudged)-1], true, err
}

// mayGoOn reports whether a roster leaves a run alone; if it does not, the run is told to end.
func (s *Supervisor) mayGoOn(ctx context.Context, verifier *identity.Verifier, id writ.RunID) bool {
	var run *journal.Run
	var signed []byte
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		if run, err = tx.Run(id); err != nil || run == nil {
			return err
		}
		signed, err = tx.Payload(run.Payload)
		return err
	})
	if err != nil || run == nil {
		if ctx.Err() == nil {
			s.Log.Error("whether a run may go on cannot be read", "run", id, "err", err)
		}
		return false
	}
	_, err = verifier.SubmissionAt(signed, run.Accepted)
	switch writ.CodeOf(err) {
	case writ.CodeSignerRevoked, writ.CodeSignerUnknown, writ.CodeRoleMissing, writ.CodeDestructiveDenied:
		why := writ.Errorf(writ.CodeSignerRevoked, "%s may not have this run any more: %s", run.Signer, err)
		s.turns.post(id, mail{stop: &stop{state: writ.RunCancelled, err: why, by: s.Now().Add(stopWithin)}})
		return false
	}
	return true
}

// inRoster reports whether the roster gives this datacenter to this supervisor's key.
func (s *Supervisor) inRoster(r *identity.Roster) error {
	d := r.Datacenter(s.Datacenter)
	if d == nil {
		return writ.Errorf(writ.CodeDatacenterUnknown, "roster %d has no datacenter %s", r.Version, s.Datacenter).WithHint("add it with `writ dc add`")
	}
	if !d.SupervisorKey.Equal(s.Key.Public().(ed25519.PublicKey)) {
		return writ.Errorf(writ.CodeSignerUnknown, "the roster gives %s another supervisor key than the one here", d.Name).
			WithHint("use the data directory that the datacenter was added with")
	}
	return nil
}
