package revision

import (
	"context"
	"maps"
	"slices"
	"strings"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/coord/api"
	"writ/identity"
	"writ/scripts"
	"writ/scripts/library"
)

// Revision is a revision of a deployment with its signed text. The id of the run is derived from the digest of the
// text. The text names the deployment and the revision.
type Revision struct {
	Number      int
	Run         api.Run // as the coordinator shows it
	Payload     *identity.Payload
	Certificate *identity.Certificate // that signed it, nil for a plain key
	// Revoked is the SIGNER_REVOKED error if the key or its owner was revoked since. Another person may have used the
	// key. If Revoked is nil, the roster proves that Payload.Signer signed the text.
	Revoked error
}

// Newest stands for the newest revision.
const Newest = 0

// Read returns a revision of the deployment with its text, and verifies the author of the text by the roster. number is
// Newest for the newest one. The error is NOT_FOUND if the coordinator lacks the revision, and UNVERIFIED or the error
// of the signature if no person signed the text as this revision.
//
// The text alone does not prove that the datacenter accepted it: see Proved.
func (d Deployment) Read(
	ctx context.Context, c *client.Client, roster *identity.Roster, number int,
) (*Revision, error) {
	run, err := d.run(ctx, c, number)
	if err != nil {
		return nil, err
	}
	return d.ReadRun(ctx, c, roster, run)
}

// ReadSucceeded returns the newest revision before the revision `before` whose run succeeded. It verifies the text like
// Read. The error is NOT_FOUND if the coordinator lacks such a revision.
func (d Deployment) ReadSucceeded(
	ctx context.Context, c *client.Client, roster *identity.Roster, before int,
) (*Revision, error) {
	var found *api.Run
	err := d.each(ctx, c, client.PageSize, func(r api.Run) bool {
		if r.Revision < before && r.State == api.RunStateSucceeded {
			found = &r
		}
		return found == nil
	})
	if err != nil {
		return nil, err
	}
	if found == nil && before == 1 {
		return nil, writ.Errorf(writ.CodeNotFound, "revision 1 is the first one of the deployment %s", d.Name).
			WithHint("submit a corrected script with --deployment %s", d.Name)
	}
	if found == nil {
		return nil, writ.Errorf(writ.CodeNotFound, "the coordinator has no revision of %s before %d that succeeded", d.Name,
			before).WithHint("choose one with --to: `writ deployment history %s` lists the revisions", d.Name)
	}
	return d.ReadRun(ctx, c, roster, *found)
}

// run returns the run of a revision. After a restore of the supervisor from a backup, two runs can have the same
// revision. run then prefers the run that the datacenter has not lost.
func (d Deployment) run(ctx context.Context, c *client.Client, number int) (found api.Run, err error) {
	size := client.PageSize
	if number == Newest {
		size = newestWithin
	}
	newest := 0
	err = d.each(ctx, c, size, func(r api.Run) bool {
		newest = max(newest, r.Revision)
		if number != Newest && r.Revision != number {
			return true
		}
		if found.ID == "" || lost(found) {
			found = r
		}
		return lost(found)
	})
	switch {
	case err != nil:
		return api.Run{}, err
	case found.ID != "":
		return found, nil
	case newest == 0:
		return api.Run{}, writ.Errorf(writ.CodeNotFound, "the coordinator no longer has a run of the deployment %s", d.Name).
			WithHint("its ledger may be new: use another coordinator with --server, or submit the script again")
	case number > newest:
		return api.Run{}, writ.Errorf(writ.CodeNotFound, "the deployment %s has no revision %d: the newest one is %d", d.Name,
			number, newest).WithHint("`writ deployment history %s` lists the revisions", d.Name)
	}
	return api.Run{}, writ.Errorf(writ.CodeNotFound, "the coordinator has no revision %d of the deployment %s", number,
		d.Name).WithHint("`writ deployment history %s` lists its revisions", d.Name)
}

// newestWithin is the number of runs to request for the newest revision. The newest runs may have been refused.
const newestWithin = 20

// lost reports whether the datacenter of a run has lost the run, after a restore from a backup.
func lost(r api.Run) bool { return r.Failure != nil && r.Failure.Code == writ.CodeRunLost }

// ReadRun works like Read for the revision that a run made.
func (d Deployment) ReadRun(
	ctx context.Context, c *client.Client, roster *identity.Roster, run api.Run,
) (*Revision, error) {
	signed, err := c.Runs.Signed(ctx, run)
	if err != nil {
		return nil, err
	}
	v := &identity.Verifier{Roster: roster, Datacenter: d.Datacenter}
	verified, err := identity.PastSubmission(v, signed)
	var revoked error
	if writ.CodeOf(err) == writ.CodeSignerRevoked {
		revoked = err
		verified, err = identity.ReadSubmission(signed)
	}
	if err != nil {
		return nil, err
	}
	p := verified.Payload
	if p.Project != d.Project || p.Datacenter != d.Datacenter || p.Deployment.Name != d.Name ||
		p.Deployment.Base+1 != run.Revision {
		return nil, writ.Errorf(writ.CodeUnverified,
			"the coordinator shows run %s as revision %d of the deployment %s, but the signed text names %s of project %s",
			run.ID, run.Revision, d.Name, p.Deployment, p.ProjectName).
			WithHint("use another coordinator with --server, and inform the operator of this one")
	}
	return &Revision{
		Number: run.Revision, Run: run, Payload: p, Certificate: verified.Certificate, Revoked: revoked,
	}, nil
}

// Proved returns nil if the supervisor has signed a summary of the run of the revision, which proves that its
// datacenter has accepted the text. The error is CONFLICT if the run has not ended, because it has no proof yet, and
// RUN_LOST if the datacenter signed only that it refuses the text.
func (r *Revision) Proved(ctx context.Context, c *client.Client, roster *identity.Roster) error {
	var end client.End
	if r.Run.State.Ended() {
		var err error
		if end, err = c.Runs.End(ctx, roster, &r.Run); err != nil {
			return err
		}
	}
	switch {
	case !r.Run.State.Ended():
		return writ.Errorf(writ.CodeConflict, "the run of revision %d has not ended", r.Number).
			WithHint("`writ run watch %s` waits for it", r.Run.ID)
	case end.Refused:
		return writ.Errorf(writ.CodeRunLost, "no proof exists that the datacenter has accepted revision %d: %s",
			r.Number, end.Failure.Message).
			WithHint("read it with `writ deployment script %s --revision %d`, and submit the parts that you accept",
				r.Payload.Deployment.Name, r.Number)
	}
	return nil
}

// Bundle returns the script with all its modules, as they were signed.
func (r *Revision) Bundle() scripts.Bundle {
	b := scripts.Bundle{Main: scripts.Source(r.Payload.Script)}
	for _, m := range r.Payload.Modules {
		b.Modules = append(b.Modules, scripts.Source(m))
	}
	return b
}

// Modules returns the names of the modules that do not come from the library, sorted.
func (r *Revision) Modules() (names []string) {
	for _, m := range r.Payload.Modules {
		if !strings.HasPrefix(m.Name, library.Prefix) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// File returns the text of the script, or of a module if name is not empty.
func (r *Revision) File(name string) ([]byte, bool) {
	if name == "" || name == r.Payload.Script.Name {
		return r.Payload.Script.Text, true
	}
	for _, m := range r.Payload.Modules {
		if m.Name == name {
			return m.Text, true
		}
	}
	return nil, false
}

// Parameters returns the names of the parameters, sorted.
func (r *Revision) Parameters() []string { return slices.Sorted(maps.Keys(r.Payload.Params)) }
