package rosters

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/internal/wake"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/program"
)

const (
	// recheckBatch is the number of runs that are checked against a new roster before the progress is written.
	recheckBatch = 256
	// recheckDelay is the pause before the next attempt after a failed check.
	recheckDelay = time.Second
)

// RecheckConfig holds the dependencies of a Recheck. All fields are required.
type RecheckConfig struct {
	Journal  *journal.Journal
	Rosters  *Keeper
	Programs *program.Store
	// Post delivers mail to a run.
	Post func(run writ.RunID, m mail.Mail)
	Log  *slog.Logger
}

// Recheck checks the open runs against each new roster. Create it with NewRecheck.
type Recheck struct {
	RecheckConfig
	wake wake.Signal
}

// NewRecheck returns a recheck. Call Run to start it.
func NewRecheck(config RecheckConfig) *Recheck {
	return &Recheck{RecheckConfig: config, wake: wake.New()}
}

// Wake signals that a new roster is in force.
func (r *Recheck) Wake() {
	r.wake.Raise()
}

// Run checks the open runs at the start, and whenever a roster comes into force, until ctx ends. The sender of a roster
// may disconnect once the roster is on disk, so Run itself repeats failed checks until all succeed.
func (r *Recheck) Run(ctx context.Context) error {
	said := ""
	for {
		var again <-chan time.Time
		err := r.cancelRevoked(ctx)
		switch {
		case err == nil:
			said = ""
		case ctx.Err() == nil:
			again = time.After(recheckDelay)
			if said != err.Error() && r.Journal.Fault() == nil {
				said = err.Error()
				r.Log.Warn("check open runs against the roster; trying again", "version", r.Rosters.Current().Version, "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-again:
		}
	}
}

// cancelRevoked cancels the open runs that the newest roster does not permit. The journal records the roster that last
// approved each run. A crash or an error after the adoption of a roster therefore skips no run. A start without a new
// roster has no runs to check. If a run cannot be read, the other runs are still checked, and the last such error is
// returned.
func (r *Recheck) cancelRevoked(ctx context.Context) error {
	verifier := r.Rosters.Verifier()
	var last journal.RosterCheck
	var unread error
	for {
		unchecked, err := r.uncheckedRuns(ctx, verifier, last)
		if err != nil || len(unchecked) == 0 {
			return cmp.Or(err, unread)
		}
		if err := r.checkSome(ctx, verifier, unchecked); err != nil {
			unread = err
		}
		last = unchecked[len(unchecked)-1]
	}
}

// uncheckedRuns returns the next batch of runs after `last` that the roster of the verifier has not approved.
func (r *Recheck) uncheckedRuns(
	ctx context.Context, verifier *identity.Verifier, last journal.RosterCheck,
) ([]journal.RosterCheck, error) {
	unchecked, err := journal.Query(ctx, r.Journal, func(tx *journal.Tx) ([]journal.RosterCheck, error) {
		return tx.UncheckedRuns(verifier.Roster.Version, last, recheckBatch)
	})
	if err != nil {
		return nil, fmt.Errorf("list unchecked runs: %w", err)
	}
	return unchecked, nil
}

// checkSome checks runs and records the runs that may continue.
func (r *Recheck) checkSome(
	ctx context.Context, verifier *identity.Verifier, unchecked []journal.RosterCheck,
) error {
	var good []writ.RunID
	var unread error
	for _, j := range unchecked {
		switch continues, err := r.mayContinue(ctx, verifier, j.Run); {
		case err != nil:
			unread = fmt.Errorf("check run %s: %w", j.Run, err)
		case continues:
			good = append(good, j.Run)
		}
	}
	if len(good) == 0 {
		return unread
	}
	err := r.Journal.Write(failpoint.At(ctx, failpoint.RunsChecked),
		func(tx *journal.Tx) error { return tx.SetChecked(verifier.Roster.Version, good...) })
	if err != nil {
		return fmt.Errorf("record checked runs: %w", err)
	}
	return unread
}

// mayContinue reports whether a roster permits a run. If it does not, mayContinue posts a stop to the run.
func (r *Recheck) mayContinue(ctx context.Context, verifier *identity.Verifier, id writ.RunID) (bool, error) {
	run, signed, err := r.Programs.Submission(ctx, id)
	if err != nil || run == nil {
		return false, err
	}
	if err := r.Programs.Verify(ctx, run, signed); writ.CodeOf(err) == writ.CodeRecordForged {
		r.Post(id, mail.Mail{}) // the next step of the run ends the run
		return false, nil
	} else if err != nil {
		return false, err
	}
	if why := r.Programs.CheckSigner(verifier, run, signed); why != nil {
		r.Post(id, mail.Mail{Stop: why})
		return false, nil
	}
	return true, nil
}
