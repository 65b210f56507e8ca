package program

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/limit"
	"writ/internal/metrics"
	"writ/scripts"
	"writ/supervisor/journal"
)

// Config holds the dependencies of a Store. All fields are required.
type Config struct {
	Datacenter writ.DatacenterID
	Journal    *journal.Journal
	Evaluator  scripts.Evaluator
	Roster     func() *identity.Roster
	Verifier   func() *identity.Verifier
	// RosterText returns a function that reads the signed text of a roster.
	RosterText func(ctx context.Context) func(version int) ([]byte, error)
	Refusals   *limit.Lines
	Now        func() time.Time
	Log        *slog.Logger
}

// Store holds the programs of runs. Make it with New.
type Store struct {
	Config
	kept     *cache
	verified *reverified
	past     pastRosters
	passes   passes
}

// New returns an empty store.
func New(config Config) *Store {
	return &Store{Config: config, kept: newCache(), verified: newReverified(), passes: newPasses()}
}

// Metrics sends the metrics of passes.
func (s *Store) Metrics(to *metrics.Scrape) { to.Include(s.passes.took, s.passes.failed) }

// maxReverified limits the runs in memory whose submissions were verified. Other submissions are verified again.
const maxReverified = 1 << 14

// reverified holds short digests of verified submissions, so that waiting runs need little memory. It is infeasible to
// find another text with the same 128 bits.
type reverified struct {
	mu   sync.Mutex
	runs map[ShortDigest]reverifiedRun
}

// reverifiedRun is the verified submission of a run.
type reverifiedRun struct {
	signed ShortDigest // see SignedDigestOf
	roster int32       // newest roster version under which the signer's rights were confirmed; 0 if unchecked
}

// ShortDigest is the first half of a SHA-256 digest.
type ShortDigest [sha256.Size / 2]byte

// ShortDigestOf returns the digest of a text.
func ShortDigestOf[T ~string | ~[]byte](text T) ShortDigest {
	sum := sha256.Sum256([]byte(text))
	return ShortDigest(sum[:])
}

// SignedDigestOf returns the digest of a signed text with its signature, given the digest of the text. It hashes only the
// signature, because texts are large.
func SignedDigestOf(text writ.Digest, signed []byte) ShortDigest {
	_, armored, _ := sshsig.Split(signed) // without a signature, no verified text has the same digest
	return ShortDigestOf(slices.Concat(text[:], armored))
}

func newReverified() *reverified { return &reverified{runs: make(map[ShortDigest]reverifiedRun)} }

func (v *reverified) get(id writ.RunID) reverifiedRun {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.runs[ShortDigestOf(id)]
}

func (v *reverified) put(id writ.RunID, known reverifiedRun) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.runs) >= maxReverified {
		clear(v.runs)
	}
	v.runs[ShortDigestOf(id)] = known
}

func (v *reverified) forget(id writ.RunID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.runs, ShortDigestOf(id))
}

// forged returns the error for a run with a record that differs from its accepted submission.
func forged(id writ.RunID, what string) *writ.Error {
	return writ.Errorf(writ.CodeRecordForged,
		"the journal's record of run %s differs from the accepted submission: %s", id, what).
		WithHint("check which accounts can write to the journal's database, then restore the journal from a backup")
}

// Verify checks the submission that the journal returned for a run, and the run's record. The run id must be derived
// from the digest of the text. The signature must be valid under the roster that accepted the submission. The record
// must agree with the signed header. Otherwise the error is RECORD_FORGED.
func (s *Store) Verify(ctx context.Context, run *journal.Run, signed []byte) error {
	if signed == nil {
		return forged(run.ID, "its submission is missing")
	}
	text, _, err := sshsig.Split(signed)
	if err != nil {
		return forged(run.ID, "its submission is not a signed text")
	}
	digest := writ.DigestOf(text)
	sum := SignedDigestOf(digest, signed)
	if s.verified.get(run.ID).signed == sum {
		return nil
	}
	if digest != run.Payload || writ.RunIDOf(digest) != run.ID {
		return forged(run.ID, "its submission is another text, with the digest "+digest.String())
	}
	roster, err := s.rosterAt(ctx, run.Roster)
	if err != nil {
		return err
	}
	verified, err := verifyAsOf(roster, s.Datacenter, signed, run)
	if err != nil {
		return forged(run.ID, "the signature of its submission has become invalid: "+err.Error())
	}
	if what := differs(run, verified); what != "" {
		return forged(run.ID, what+" differs from the signed header")
	}
	s.verified.put(run.ID, reverifiedRun{signed: sum})
	return nil
}

// verifyAsOf verifies a submission as of its acceptance. It tries three times, because the acceptance was up to a
// minute before the time in the run's record.
func verifyAsOf(
	roster *identity.Roster, datacenter writ.DatacenterID, signed []byte, run *journal.Run,
) (verified *identity.Verified, err error) {
	for _, before := range []time.Duration{0, time.Second, time.Minute} {
		at := run.Accepted.Add(-before)
		verifier := &identity.Verifier{Roster: roster, Datacenter: datacenter, Now: func() time.Time { return at }}
		verified, err = verifier.Submission(signed)
		if code := writ.CodeOf(err); code != writ.CodeExpired && code != writ.CodeNotYetValid {
			break
		}
	}
	return verified, err
}

// differs names the first field of a run that differs from the signed header, "" if all agree.
func differs(run *journal.Run, v *identity.Verified) string {
	p := v.Payload
	for _, is := range []struct {
		same bool
		what string
	}{
		{run.Datacenter == p.Datacenter, "its datacenter"},
		{run.Project == p.Project && run.ProjectName == p.ProjectName, "its project"},
		{
			run.Deployment == p.Deployment.Name && (run.Deployment == "" || run.Revision == p.Deployment.Base+1),
			"its deployment",
		},
		{slices.Equal(run.Uses, p.Uses), "the list of deployments that it may change"},
		{run.Signer == v.Signer, "its signer"},
		{run.Script == p.Script.Name, "its script"},
		{run.Plan == p.Plan, "its plan"},
		{run.Engine == p.Engine, "its engine"},
		{
			run.Destructive == (len(p.Targets) > 0) && slices.Equal(run.Targets, p.Targets),
			"the list of resources that it may destroy",
		},
		{slices.Equal(run.Allow, p.Allow), "the list of operations that it may call"},
		{run.Signed.Equal(p.Created), "its time of signing"},
		{run.Expires.Equal(p.Expires), "its expiry"},
		{run.Deadline.Equal(run.Accepted.Add(p.Deadline)), "its deadline"},
	} {
		if !is.same {
			return is.what
		}
	}
	return ""
}

// rosterAt returns a version of the roster that was adopted here.
func (s *Store) rosterAt(ctx context.Context, version int) (*identity.Roster, error) {
	newest := s.Roster()
	if version == newest.Version {
		return newest, nil
	}
	s.past.Lock()
	defer s.past.Unlock()
	if known := s.past.rosters[version]; known != nil {
		return known, nil
	}
	signed, err := s.RosterText(ctx)(version)
	if err != nil {
		return nil, err
	}
	past, err := newest.Earlier(signed)
	if err != nil {
		return nil, err
	}
	if len(s.past.rosters) >= maxPastRosters || s.past.rosters == nil {
		s.past.rosters = make(map[int]*identity.Roster)
	}
	s.past.rosters[version] = past
	return past, nil
}

// maxPastRosters limits the earlier rosters in memory.
const maxPastRosters = 8

// pastRosters caches earlier rosters.
type pastRosters struct {
	sync.Mutex
	rosters map[int]*identity.Roster
}

// Submission returns a run with its signed payload, both nil if the run is unknown. It does not verify them.
func (s *Store) Submission(ctx context.Context, id writ.RunID) (run *journal.Run, signed []byte, err error) {
	err = s.Journal.Read(ctx, func(tx *journal.Tx) error {
		if run, err = tx.Run(id); err != nil || run == nil {
			return err
		}
		signed, err = tx.Payload(run.Payload)
		return err
	})
	return run, signed, err
}
