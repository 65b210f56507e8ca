package supervisor

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"sync"

	"writ"
	"writ/identity"
	"writ/identity/secret"
	"writ/internal/failpoint"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/workflow"
)

// A secret is stored as it arrived, encrypted to the supervisor. It is decrypted twice: when it is set, so that an
// unusable secret is refused at once, and when a call that names it is sent. Then it is encrypted to the node. No
// plaintext is stored in between.

func (s *Supervisor) setSecret(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	change, err := identity.ParseSecretChange(v.Statement)
	if err != nil {
		return link.StatementAnswer{}, err
	}
	label := s.secrets.label(change.Project, change.Name, change.Version)
	if _, err := s.secrets.open(change.Ciphertext, label); err != nil {
		return link.StatementAnswer{}, err
	}
	answer := link.StatementAnswer{
		Subject: v.Statement.Subject, Done: fmt.Sprintf("the secret %s is set, version %d", change.Name, change.Version),
	}
	err = s.Journal.Write(failpoint.At(ctx, failpoint.SecretSet), func(tx *journal.Tx) error {
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
		return s.record(tx, v, &answer)
	})
	return answer, err
}

// maxSecrets limits the versions of all secrets of a project in a datacenter, of at most 36 KiB each. GitHub limits the
// secrets of an organization to as many.
const maxSecrets = 1000

// roomForSecret returns QUOTA_EXCEEDED if the project may not have another version of a secret. Removed versions make
// room.
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
		WithHint("`writ secret remove NAME@VERSION` removes the versions up to one; `writ secret list` shows them. Use names again: the newest version of each stays")
}

// isNext returns CONFLICT if the version to set is not the next one.
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
		return writ.Errorf(writ.CodeConflict, "the secret %s has version %d; what was signed would make version %d",
			change.Name, have, change.Version).
			WithHint("another person set it meanwhile; look with `writ secret list`, then set it again")
	}
	return nil
}

func (s *Supervisor) removeSecret(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	change, err := identity.ParseSecretChange(v.Statement)
	if err != nil {
		return link.StatementAnswer{}, err
	}
	var answer link.StatementAnswer
	err = s.Journal.Write(failpoint.At(ctx, failpoint.SecretRemoved), func(tx *journal.Tx) error {
		newest, err := tx.NewestSecret(change.Project, change.Name)
		if err != nil {
			return err
		}
		if newest == nil {
			return writ.Errorf(writ.CodeSecretUnknown, "there is no secret %s in this project and datacenter", change.Name).
				WithHint("`writ secret list` shows what there is")
		}
		if change.Version > newest.Version || int64(newest.Version) != v.Statement.Seen.Revision {
			return writ.Errorf(writ.CodeConflict,
				"the secret %s has version %d; what was signed would remove up to version %d, and saw version %d",
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
		return s.record(tx, v, &answer)
	})
	return answer, err
}

func (s *Supervisor) listSecrets(ctx context.Context, project writ.ProjectID) (all []writ.Secret, err error) {
	err = s.Journal.Read(ctx, func(tx *journal.Tx) error {
		all, err = tx.Secrets(project)
		return err
	})
	for i := range all {
		all[i].Datacenter = s.Datacenter
	}
	return all, err
}

// knowsSecrets refuses a submission that names a missing version, or a version that was already outdated when the
// submission was signed: an attacker who showed the signer an old version must not thereby choose it.
func knowsSecrets(tx *journal.Tx, p *identity.Payload) error {
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

// maxCiphertexts limits the cached ciphertexts for nodes, each at most 36 KiB.
const maxCiphertexts = 512

// keyring decrypts the secrets that were encrypted to this supervisor, and encrypts them to nodes. It caches the
// ciphertexts for nodes, so that parallel calls on a node cost one encryption. It stores no plaintext.
type keyring struct {
	cluster    writ.ClusterID
	datacenter writ.DatacenterID
	key        ed25519.PrivateKey

	mu   sync.Mutex
	kept map[encryptedFor][]byte
}

type encryptedFor struct {
	key   string // of the node
	label secret.Label
}

func newKeyring(cluster writ.ClusterID, datacenter writ.DatacenterID, key ed25519.PrivateKey) *keyring {
	return &keyring{cluster: cluster, datacenter: datacenter, key: key, kept: make(map[encryptedFor][]byte)}
}

// label identifies a version of a secret.
func (k *keyring) label(project writ.ProjectID, name string, version int) secret.Label {
	return secret.Label{Cluster: k.cluster, Datacenter: k.datacenter, Project: project, Name: name, Version: version}
}

// open decrypts a secret.
func (k *keyring) open(ciphertext []byte, label secret.Label) (string, error) {
	reader, err := secret.OfSupervisor(k.key)
	if err != nil {
		return "", fmt.Errorf("read secrets with the supervisor's key: %w", err)
	}
	return secret.Open(ciphertext, label, reader)
}

// Encrypted implements Secrets.
func (k *keyring) Encrypted(have *journal.Secret, node *journal.Node) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := encryptedFor{node.AgeKey, k.label(have.Project, have.Name, have.Version)}
	if ciphertext, ok := k.kept[at]; ok {
		return ciphertext, nil
	}
	value, err := k.open(have.Ciphertext, at.label)
	if err != nil {
		return nil, err
	}
	reader, err := secret.ForNode(node.AgeKey)
	if err != nil {
		return nil, err
	}
	ciphertext, err := secret.Encrypt(value, at.label, reader)
	if err != nil {
		return nil, err
	}
	if len(k.kept) >= maxCiphertexts {
		clear(k.kept)
	}
	k.kept[at] = ciphertext
	return ciphertext, nil
}
