package submission

import (
	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

// nextRevision increments the revision of the payload's deployment. It returns a conflict if the script was planned
// against a revision other than the newest.
func nextRevision(tx *journal.Tx, p *identity.Payload) error {
	if p.Deployment.Name == "" {
		return nil
	}
	have, err := tx.Revision(p.Project, p.Deployment.Name)
	if err != nil {
		return err
	}
	if have != p.Deployment.Base {
		return OtherRevision(p.Deployment.Name, have, p.Deployment.Base)
	}
	if have == 0 {
		if err := roomForDeployment(tx, p); err != nil {
			return err
		}
	}
	return tx.SetRevision(p.Project, p.Deployment.Name, have+1)
}

// maxDeployments limits the deployment names of a project. The journal keeps their revisions forever.
const maxDeployments = 10_000

// roomForDeployment returns QUOTA_EXCEEDED if the project may not have another deployment.
func roomForDeployment(tx *journal.Tx, p *identity.Payload) error {
	n, err := tx.CountDeployments(p.Project)
	if err != nil || n < maxDeployments {
		return err
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "the project has %d deployments in this datacenter, the maximum", n).
		WithHint("use the name of an existing deployment: `writ resource list` shows the deployments")
}

// OtherRevision returns the error for a script that was planned against an earlier revision of its deployment.
func OtherRevision(deployment string, have, base int) *writ.Error {
	return writ.Errorf(writ.CodeConflict, "the deployment %s is at revision %d, the script was signed against %d",
		deployment, have, base).
		WithHint("`writ plan FILE --deployment %s` shows the changes that the script would make now, and how to sign "+
			"it again",
			deployment)
}
