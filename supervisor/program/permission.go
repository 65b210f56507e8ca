package program

import (
	"context"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/workflow"
)

// MayAct checks the submission of a run, and the signer's rights under the newest roster, before a step of the run. An
// attacker with write access to the database must not be able to prevent this check. If a check fails, MayAct returns
// the stop that ends the run.
func (s *Store) MayAct(ctx context.Context, run *journal.Run) (*mail.Stop, error) {
	newest := s.Roster().Version
	if run.State.Ended() || run.Stop != nil || int(s.verified.get(run.ID).roster) >= newest {
		return nil, nil
	}
	signed, err := journal.Query(ctx, s.Journal, func(tx *journal.Tx) ([]byte, error) { return tx.Payload(run.Payload) })
	if err == nil {
		err = s.Verify(ctx, run, signed)
	}
	switch {
	case writ.CodeOf(err) == writ.CodeRecordForged:
		// the log is rate-limited: an attacker can change many records
		if times, say := s.Refusals.Say(string(writ.CodeRecordForged), time.Now()); say {
			s.Log.Error("run failed: the journal no longer has its accepted submission", "run", run.ID,
				"code", writ.CodeRecordForged, "err", err, "times", times)
		}
		return &mail.Stop{State: writ.RunFailed, Err: writ.AsError(err), By: s.Now().Add(workflow.StopWithin)}, nil
	case err != nil:
		return nil, err
	}
	return s.CheckSigner(s.Verifier(), run, signed), nil
}

// CheckSigner returns the stop that ends a run if the verifier's roster does not permit it, or nil. Every error is a
// stop: the verifier checks the rights last, so any earlier error could hide that the signer has lost them. Nodes
// reject the jobs of such a run too. The deadline of the run is not checked.
func (s *Store) CheckSigner(verifier *identity.Verifier, run *journal.Run, signed []byte) *mail.Stop {
	then := *verifier
	then.Now = func() time.Time { return run.Accepted } // before the deadline
	verified, err := then.SubmissionAt(signed, run.Accepted)
	if err != nil {
		return &mail.Stop{State: writ.RunCancelled, Err: lostPermission(run, err), By: s.Now().Add(workflow.StopWithin)}
	}
	s.verified.put(run.ID, reverifiedRun{SignedDigestOf(verified.Digest, signed), int32(verifier.Roster.Version)})
	return nil
}

// lostPermission returns the error for a run that the newest roster does not permit.
func lostPermission(run *journal.Run, cause error) *writ.Error {
	code := writ.CodeOf(cause)
	switch code {
	case writ.CodeSignerRevoked, writ.CodeSignerUnknown, writ.CodeRoleMissing, writ.CodeDestructiveDenied:
		return writ.Errorf(writ.CodeSignerRevoked, "%s may not have this run any more: %s", run.Signer, cause)
	}
	return writ.Errorf(code, "the newest roster does not permit this run of %s: %s", run.Signer, cause).
		WithHint("sign it again with the newest roster")
}
