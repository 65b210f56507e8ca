// Package member holds a node's membership of its datacenter: its keys, its record and its verified rosters in the data
// directory. It also makes the requests to the supervisor about the membership: join, get the account at the queue,
// check the membership, and get an order to stop. Every answer must be signed by the datacenter's supervisor; an order
// to stop must also have the signature of a person. The package must not depend on jobs, drivers or queues.
package member

import (
	"crypto/ed25519"
	"fmt"
	"path/filepath"
	"time"

	"filippo.io/age"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/sal"
)

// The files of a member in its data directory.
const (
	keyFile    = "node.key"
	ageFile    = "age.key"
	memberFile = "member.json"
)

// Member is a node's membership of its datacenter: its keys, its identity and its verified rosters. All of it is stored
// in the data directory; changes are on disk before they take effect. Join creates a Member.
type Member struct {
	store

	dir     string
	key     ed25519.PrivateKey
	age     *age.X25519Identity
	token   *identity.Token // from the Join of this process; nil if Join got no token
	version string          // version of the program
	serial  string          // serial number of the machine, sent with a join; "" if unknown
	removal *Removal
}

// Key returns the key of the node in a data directory. It creates the key if it is missing: a node has a key before it
// joins.
func Key(dir string) (ed25519.PrivateKey, error) {
	if err := sal.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	key, err := loadKey(filepath.Join(dir, keyFile))
	if err != nil {
		return nil, fmt.Errorf("load the node's key: %w", err)
	}
	return key, nil
}

// openMember loads the data directory and creates missing keys. The member's node ID is "" if it never joined.
func openMember(dir string) (*Member, error) {
	m := &Member{store: store{path: filepath.Join(dir, memberFile)}, dir: dir, removal: newRemoval()}
	var err error
	if m.key, err = Key(dir); err != nil {
		return nil, err
	}
	path, newAge := filepath.Join(dir, ageFile), false
	if m.age, newAge, err = loadAge(path); err != nil {
		return nil, fmt.Errorf("load the node's age key: %w", err)
	}
	m.keys = PublicKeys{Node: sshsig.Fingerprint(m.PublicKey()), Age: m.age.Recipient().String()}
	if err := m.load(newAge); err != nil {
		return nil, err
	}
	// The key file is written after the record: after a crash in between, the key file is missing and does not contradict
	// the record.
	if newAge {
		if err := saveAge(path, m.age); err != nil {
			return nil, fmt.Errorf("store the node's age key: %w", err)
		}
	}
	return m, nil
}

// Dir returns the data directory.
func (m *Member) Dir() string { return m.dir }

// Node returns the node's ID.
func (m *Member) Node() writ.NodeID { return m.State().Node }

// Name returns the node's name in its datacenter.
func (m *Member) Name() string { return m.State().Name }

// Datacenter returns the node's datacenter.
func (m *Member) Datacenter() writ.DatacenterID { return m.State().Datacenter }

// Admission returns the node's admission, as far as the node knows.
func (m *Member) Admission() writ.Admission { return m.State().Admission }

// PublicKey returns the key that verifies the node's signatures.
func (m *Member) PublicKey() ed25519.PublicKey { return m.key.Public().(ed25519.PublicKey) }

// PrivateKey returns the key that signs the node's messages.
func (m *Member) PrivateKey() ed25519.PrivateKey { return m.key }

// AgeKey returns the key that decrypts values for this node.
func (m *Member) AgeKey() *age.X25519Identity { return m.age }

// SupervisorKey returns the key of the datacenter's supervisor in the newest roster, if id is its ID.
func (m *Member) SupervisorKey(id envelope.KeyID) (ed25519.PublicKey, error) {
	datacenter, err := m.Trusted(time.Now())
	if err != nil {
		return nil, err
	}
	if got := envelope.IDOf(datacenter.SupervisorKey); got != id {
		return nil, writ.Errorf(writ.CodeSignerUnknown, "the key %s is not the key of the datacenter's supervisor", id)
	}
	return datacenter.SupervisorKey, nil
}

// Trusted returns the node's datacenter in the newest roster. The roster must not have expired, so that an attacker
// cannot keep an old key valid by withholding newer rosters.
func (m *Member) Trusted(now time.Time) (*identity.Datacenter, error) {
	roster, id := m.Roster(), m.Datacenter()
	if now.After(roster.Expires) {
		return nil, writ.Errorf(writ.CodeRosterTooOld, "the newest roster that the node has, version %d, expired %s",
			roster.Version, roster.Expires.UTC().Format(time.RFC3339))
	}
	datacenter := roster.Datacenter(id)
	if datacenter == nil {
		return nil, writ.Errorf(writ.CodeRosterInvalid, "roster %d no longer contains the node's datacenter %s",
			roster.Version, id)
	}
	return datacenter, nil
}
