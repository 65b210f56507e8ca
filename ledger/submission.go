package ledger

import (
	"context"
	"time"

	"writ"
)

// MaxRejected limits the refused or expired submissions that are stored for each signer.
const MaxRejected = 1_000

// Submissions stores submissions. They change state as writ.SubmissionMoves allows. Each change is a compare-and-set
// and stores an event.
type Submissions interface {
	// AddSubmission stores a verified submission as waiting, and a waiting run for it. If a submission with the same
	// payload exists, in any state and with any signature, nothing changes: AddSubmission returns the existing
	// submission and added is false.
	AddSubmission(ctx context.Context, incoming Incoming) (submission writ.Submission, added bool, err error)
	// Submission returns a submission by the digest of its payload.
	Submission(ctx context.Context, payload writ.Digest) (writ.Submission, error)
	// Signed returns the bytes of a submission: text and signature.
	Signed(ctx context.Context, payload writ.Digest) ([]byte, error)
	// WaitingProjects lists the projects with submissions that wait for a datacenter.
	WaitingProjects(ctx context.Context, datacenter writ.DatacenterID) ([]writ.ProjectID, error)
	// Waiting lists at most max submissions of a project that wait for a datacenter, in order of arrival after a
	// position. The zero Position is before all submissions.
	Waiting(
		ctx context.Context, datacenter writ.DatacenterID, project writ.ProjectID, after Position, max int,
	) ([]writ.Submission, error)
	// WaitingBySigner totals the waiting submissions of each signer.
	WaitingBySigner(ctx context.Context) (map[string]Waits, error)
	// Overdue lists at most max waiting submissions of any datacenter that expired before now, earliest expiry first.
	Overdue(ctx context.Context, now time.Time, max int) ([]writ.Submission, error)
	// Deliver records that the submission's datacenter accepted it as run. The ledger copies run unless events of the
	// datacenter have reported the run before. A submission that is already delivered is not an error; a refused or
	// expired submission is a CONFLICT. If run is not the submission's run, the error is EXEC_ERROR: the datacenter
	// answered for another submission.
	Deliver(ctx context.Context, payload writ.Digest, run writ.Run) error
	// Reject moves a waiting submission and its run to refused or expired, with a reason. It deletes the text, and
	// keeps only the newest MaxRejected rejected submissions of a signer. Any state except waiting is a CONFLICT, so a
	// submission is never both delivered and refused.
	Reject(ctx context.Context, payload writ.Digest, to writ.SubmissionState, reason *writ.Error) error
}

// Waits is the total of submissions that wait for datacenters.
type Waits struct {
	Submissions int64
	Bytes       int64 // total size of the signed texts
}

// Plus returns w + v.
func (w Waits) Plus(v Waits) Waits { return Waits{w.Submissions + v.Submissions, w.Bytes + v.Bytes} }

// Incoming is a new submission, with the fields to show for its run until the datacenter accepts it.
type Incoming struct {
	writ.Submission
	ProjectName string
	Deployment  string // as in the payload's header, may be empty
	Plan        writ.Digest
	Params      map[string]any // as in the payload
	LogsOnly    bool           // see identity.Payload
	Signed      []byte
}

// Position is a position in the order of arrival.
type Position struct {
	Received time.Time
	Payload  writ.Digest
}

// PositionOf returns the position of a submission.
func PositionOf(s writ.Submission) Position { return Position{s.Received, s.Payload} }
