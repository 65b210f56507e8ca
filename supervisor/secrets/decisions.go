// Package secrets stores the secrets of projects and encrypts them to nodes. A secret is stored as it arrived,
// encrypted to the supervisor. The supervisor decrypts it twice. When it is set, an unusable secret is refused at once.
// When a call that names it is sent, it is encrypted to the node. No plaintext is stored in between.
package secrets

import (
	"context"
	"fmt"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/supervisor/answers"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/workflow"
)

// maxSecrets limits the versions of all secrets of a project in a datacenter, each at most 36 KiB. It equals the limit
// of GitHub for the secrets of an organization.
const maxSecrets = 1000

// Decisions sets and removes secrets. All fields are required.
type Decisions struct {
	Journal *journal.Journal
	Answers *answers.Store
	Keyring *Keyring
}

// Set carries out a statement that sets a version of a secret.
func (d *Decisions) Set(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	change, err := identity.ParseSecretChange(v.Statement)
	if err != nil {
		return link.StatementAnswer{}, err
	}
	label := d.Keyring.label(change.Project, change.Name, change.Version)
	if _, err := d.Keyring.open(change.Ciphertext, label); err != nil {
		return link.StatementAnswer{}, err
	}
	answer := link.StatementAnswer{
		Subject: v.Statement.Subject, Done: fmt.Sprintf("the secret %s is set, version %d", change.Name, change.Version),
	}
	err = d.Journal.Write(failpoint.At(ctx, failpoint.SecretSet), func(tx *journal.Tx) error {
		if err := isNext(tx, change, v.Statement.Seen); err != nil {
			return err
		}
		if err := roomForSecret(tx, change.Project); err != nil {
			return err
		}
		err := tx.AddSecret(&journal.Secret{
			Secret: writ.Secret{
				Project: change.Project, Name: change.Name, Version: change.Version, SetBy: v.Signer, Set: tx.Now,
			},
			Ciphertext: change.Ciphertext, Statement: v.Digest,
		})
		if err != nil {
			return err
		}
		return d.Answers.Record(tx, v, &answer)
	})
	return answer, err
}

// roomForSecret returns QUOTA_EXCEEDED if the project may not have another version of a secret. It deletes removed
// versions to make room.
func roomForSecret(tx *journal.Tx, project writ.ProjectID) error {
	n, err := tx.CountSecrets(project)
	if err != nil || n < maxSecrets {
		return err
	}
	if err := tx.ForgetRemovedSecrets(project); err != nil {
		return err
	}
	if n, err = tx.CountSecrets(project); err != nil || n < maxSecrets {
		return err
	}
	return writ.Errorf(writ.CodeQuotaExceeded,
		"the project has %d versions of secrets in this datacenter, and it may not have more", n).
		WithHint("`writ secret remove NAME@VERSION` removes all versions up to VERSION; `writ secret list` lists the secrets. " +
			"Use names again: the newest version of each stays")
}

// isNext returns CONFLICT if the version to set is not the next version.
func isNext(tx *journal.Tx, change identity.SecretChange, seen identity.Seen) error {
	newest, err := tx.NewestSecret(change.Project, change.Name)
	if err != nil {
		return err
	}
	have := 0
	if newest != nil {
		have = newest.Version
	}
	if change.Version != have+1 || int64(have) != seen.Revision {
		return writ.Errorf(writ.CodeConflict, "the secret %s has version %d, and the statement sets version %d",
			change.Name, have, change.Version).
			WithHint("another person set it meanwhile; look with `writ secret list`, then set it again")
	}
	return nil
}

// Remove carries out a statement that removes a secret up to a version.
func (d *Decisions) Remove(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	change, err := identity.ParseSecretChange(v.Statement)
	if err != nil {
		return link.StatementAnswer{}, err
	}
	var answer link.StatementAnswer
	err = d.Journal.Write(failpoint.At(ctx, failpoint.SecretRemoved), func(tx *journal.Tx) error {
		newest, err := tx.NewestSecret(change.Project, change.Name)
		if err != nil {
			return err
		}
		if newest == nil {
			return writ.Errorf(writ.CodeSecretUnknown, "the project has no secret %s in this datacenter", change.Name).
				WithHint("`writ secret list` shows the secrets")
		}
		if change.Version > newest.Version || int64(newest.Version) != v.Statement.Seen.Revision {
			return writ.Errorf(writ.CodeConflict,
				"the secret %s has version %d; the statement removes up to version %d, and its signer saw version %d",
				change.Name, newest.Version, change.Version, v.Statement.Seen.Revision).
				WithHint("look with `writ secret list`, then remove it again")
		}
		_, err = tx.RemoveSecrets(change.Project, change.Name, change.Version)
		if err != nil {
			return err
		}
		answer = link.StatementAnswer{
			Subject: v.Statement.Subject,
			Done:    fmt.Sprintf("the secret %s is removed up to version %d", change.Name, change.Version),
		}
		return d.Answers.Record(tx, v, &answer)
	})
	return answer, err
}

// CheckNamed returns an error for a submission that names a missing version of a secret. It also rejects a version that
// was outdated when the submission was signed. Otherwise an attacker could show the signer an old version and thereby
// select it.
func CheckNamed(tx *journal.Tx, p *identity.Payload) error {
	for _, ref := range p.Secrets {
		name, version := workflow.SplitRef(ref)
		have, err := tx.Secret(p.Project, name, version)
		if err != nil {
			return err
		}
		if have == nil {
			return workflow.SecretUnknown(ref, p.ProjectName)
		}
		newest, err := tx.NewestSecret(p.Project, name)
		if err != nil {
			return err
		}
		if newest.Version != version && newest.Set.Before(p.Created) {
			return writ.Errorf(writ.CodeConflict, "the script was signed with the secret %s, when version %d was there already",
				ref, newest.Version).
				WithHint("sign it again")
		}
	}
	return nil
}
