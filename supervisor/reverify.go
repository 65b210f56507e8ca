package supervisor

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/workflow"
)

// The journal may be a database on another machine. What a person has signed is believed because of the signature, so it is looked at again
// whenever the journal gives it back: before a script is evaluated, before anything is sent for a run, and before a node gets the text.

// protect has the journal authenticate its rows, under a key that only this supervisor has.
func (s *Supervisor) protect() error {
	return s.Journal.Protect(journal.Protection{
		Key: s.Key.Seed(), Known: s.Protected, KnownValues: s.ProtectedValues,
		Refused: func(err *writ.Error) {
			s.warnings.Refused("", "record of the journal changed by another program; it is not used", err, "hint", err.Hint)
		},
		Adopted: func(rows int) {
			s.Log.Warn("records of the journal are protected from now on; existing records were accepted once", "records", rows)
		},
	})
}

// maxReverified bounds the runs of which it is remembered that their submissions were found good; of others they are verified again.
const maxReverified = 1 << 14

// reverified remembers which submissions the journal gave back as they were accepted. It keeps short digests: runs that wait need next to no memory,
// and to find another text with the same 128 bits is out of reach.
type reverified struct {
	mu   sync.Mutex
	runs map[shortDigest]reverifiedRun
}

// reverifiedRun is what is known of the submission of a run.
type reverifiedRun struct {
	signed shortDigest // of text and signature
	roster int32       // the newest by which its signer may have the run; 0 if none was asked since
}

// shortDigest is the first half of a SHA-256.
type shortDigest [sha256.Size / 2]byte

func shortDigestOf[T ~string | ~[]byte](text T) shortDigest {
	sum := sha256.Sum256([]byte(text))
	return shortDigest(sum[:])
}

func newReverified() *reverified { return &reverified{runs: make(map[shortDigest]reverifiedRun)} }

func (v *reverified) get(id writ.RunID) reverifiedRun {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.runs[shortDigestOf(id)]
}

func (v *reverified) put(id writ.RunID, known reverifiedRun) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.runs) >= maxReverified {
		clear(v.runs)
	}
	v.runs[shortDigestOf(id)] = known
}

func (v *reverified) forget(id writ.RunID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.runs, shortDigestOf(id))
}

// refusedTexts remembers texts, with their signatures, that were refused for good. What the answer was is in the journal.
type refusedTexts struct {
	mu    sync.Mutex
	texts map[shortDigest]bool
}

func newRefusedTexts() *refusedTexts { return &refusedTexts{texts: make(map[shortDigest]bool)} }

func (r *refusedTexts) has(signed shortDigest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.texts[signed]
}

func (r *refusedTexts) put(signed shortDigest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.texts) >= maxReverified {
		clear(r.texts)
	}
	r.texts[signed] = true
}

// forged says that the journal gave back something else for a run than what was accepted.
func forged(id writ.RunID, what string) *writ.Error {
	return writ.Errorf(writ.CodeRecordForged, "the journal does not give back run %s as it was accepted: %s", id, what).
		WithHint("find out who can write to the database of the journal, then bring it back from a backup")
}

// reverify makes sure that the journal gave back the submission of a run, and of the run what follows from that: the text has the digest that
// the run is named after, the roster of that time verifies the signature, and the run says what the signed header says. The error is a
// RECORD_FORGED if not.
func (s *Supervisor) reverify(ctx context.Context, run *journal.Run, signed []byte) error {
	if signed == nil {
		return forged(run.ID, "its submission is not there")
	}
	sum := shortDigestOf(signed)
	if s.reverified.get(run.ID).signed == sum {
		return nil
	}
	text, _, err := identity.Split(signed)
	if err != nil {
		return forged(run.ID, "its submission is no signed text")
	}
	if digest := writ.DigestOf(text); digest != run.Payload || writ.RunIDOf(digest) != run.ID {
		return forged(run.ID, "its submission is another text, with the digest "+digest.String())
	}
	roster, err := s.rosterAt(ctx, run.Roster)
	if err != nil {
		return err
	}
	verified, err := verifyAsOf(roster, s.Datacenter, signed, run)
	if err != nil {
		return forged(run.ID, "the signature of its submission is not what it was: "+err.Error())
	}
	if what := differs(run, verified); what != "" {
		return forged(run.ID, what+" is not what was signed")
	}
	s.reverified.put(run.ID, reverifiedRun{signed: sum})
	return nil
}

// takenMeanwhile are the errors of a submission whose signer has lost, in the newest roster, what it had when the submission was accepted.
var takenMeanwhile = []writ.Code{writ.CodeSignerRevoked, writ.CodeRoleMissing, writ.CodeDestructiveDenied, writ.CodeProjectUnknown}

// verifyAsOf verifies a submission as it was verified when it was accepted, which was not long before it was on disk. A run of an earlier
// version does not say by which roster that was. The newest may take rights away meanwhile, which checkAgain looks at; it forgets no key.
func verifyAsOf(roster *identity.Roster, datacenter writ.DatacenterID, signed []byte, run *journal.Run) (verified *identity.Verified, err error) {
	for _, before := range []time.Duration{0, time.Second, time.Minute} {
		at := run.Accepted.Add(-before)
		verifier := &identity.Verifier{Roster: roster, Datacenter: datacenter, Now: func() time.Time { return at }}
		if run.Roster == 0 {
			verified, err = verifier.SubmissionAt(signed, at)
		} else {
			verified, err = verifier.Submission(signed)
		}
		switch code := writ.CodeOf(err); {
		case err == nil:
			return verified, nil
		case code == writ.CodeExpired || code == writ.CodeNotYetValid:
		case run.Roster == 0 && slices.Contains(takenMeanwhile, code):
			return identity.ReadSubmission(signed)
		default:
			return nil, err
		}
	}
	return nil, err
}

// differs names what a run says otherwise than its signed header, "" if nothing.
func differs(run *journal.Run, v *identity.Verified) string {
	p := v.Payload
	for _, is := range []struct {
		same bool
		what string
	}{
		{run.Datacenter == p.Datacenter, "its datacenter"},
		{run.Project == p.Project && run.ProjectName == p.ProjectName, "its project"},
		{run.Deployment == p.Deployment.Name && (run.Deployment == "" || run.Revision == p.Deployment.Base+1), "its deployment"},
		{run.Signer == v.Signer, "its signer"},
		{run.Script == p.Script.Name, "its script"},
		{run.Plan == p.Plan, "its plan"},
		{run.Engine == p.Engine || run.Engine == "", "its engine"},
		{run.Destructive == p.Destroys() && slices.Equal(run.Targets, p.Targets), "what it may destroy"},
		{slices.Equal(run.Allow, p.Allow), "what it may call"},
		{run.Signed.Equal(p.Created) || run.Signed.IsZero(), "when it was signed"},
		{run.Expires.Equal(p.Expires) || run.Expires.IsZero(), "until when it counts"},
		{run.Deadline.Equal(run.Accepted.Add(p.Deadline)), "its deadline"},
	} {
		if !is.same {
			return is.what
		}
	}
	return ""
}

// mayAct makes sure, before anything follows from a run, that its submission is there as it was accepted, and that the newest roster lets its
// signer have it: who can write to the database must not keep a run from being checked. It returns how the run is to end if not.
func (s *Supervisor) mayAct(ctx context.Context, run *journal.Run) (*mail.Stop, error) {
	newest := s.roster.Load().Version
	if run.State.Ended() || run.Stop != nil || int(s.reverified.get(run.ID).roster) >= newest {
		return nil, nil
	}
	var signed []byte
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		signed, err = tx.Payload(run.Payload)
		return err
	})
	if err == nil {
		err = s.reverify(ctx, run, signed)
	}
	switch {
	case writ.CodeOf(err) == writ.CodeRecordForged:
		if times, say := s.refusals.Say(string(writ.CodeRecordForged), time.Now()); say { // whoever has the database can change each of many
			s.Log.Error("run failed: the journal no longer has its accepted submission", "run", run.ID, "code", writ.CodeRecordForged, "err", err, "times", times)
		}
		return &mail.Stop{State: writ.RunFailed, Err: writ.AsError(err), By: s.Now().Add(workflow.StopWithin)}, nil
	case err != nil:
		return nil, err
	}
	return s.checkAgain(s.verifier(), run, signed), nil
}

// checkAgain says how a run is to end that a roster does not leave to its signer, nil if it does.
func (s *Supervisor) checkAgain(verifier *identity.Verifier, run *journal.Run, signed []byte) *mail.Stop {
	_, err := verifier.SubmissionAt(signed, run.Accepted)
	switch writ.CodeOf(err) {
	case writ.CodeSignerRevoked, writ.CodeSignerUnknown, writ.CodeRoleMissing, writ.CodeDestructiveDenied:
		why := writ.Errorf(writ.CodeSignerRevoked, "%s may not have this run any more: %s", run.Signer, err)
		return &mail.Stop{State: writ.RunCancelled, Err: why, By: s.Now().Add(workflow.StopWithin)}
	}
	s.reverified.put(run.ID, reverifiedRun{shortDigestOf(signed), int32(verifier.Roster.Version)})
	return nil
}

// rosterAt returns the roster of a version that was in force here; the newest for version 0.
func (s *Supervisor) rosterAt(ctx context.Context, version int) (*identity.Roster, error) {
	newest := s.roster.Load()
	if version == 0 || version == newest.Version {
		return newest, nil
	}
	s.pastRosters.Lock()
	defer s.pastRosters.Unlock()
	if known := s.pastRosters.rosters[version]; known != nil {
		return known, nil
	}
	signed, err := s.rosterText(ctx)(version)
	if err != nil {
		return nil, err
	}
	past, err := newest.Earlier(signed)
	if err != nil {
		return nil, err
	}
	if len(s.pastRosters.rosters) >= maxPastRosters || s.pastRosters.rosters == nil {
		s.pastRosters.rosters = make(map[int]*identity.Roster)
	}
	s.pastRosters.rosters[version] = past
	return past, nil
}

// maxPastRosters limits the earlier rosters in memory.
const maxPastRosters = 8

// pastRosters are the rosters that were in force here, as far as they were asked for.
type pastRosters struct {
	sync.Mutex
	rosters map[int]*identity.Roster
}
