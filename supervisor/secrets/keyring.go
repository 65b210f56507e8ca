package secrets

import (
	"crypto/ed25519"
	"fmt"
	"sync"

	"writ"
	"writ/identity/secret"
	"writ/supervisor/journal"
)

// maxCiphertexts limits the cached ciphertexts for nodes, each at most 36 KiB.
const maxCiphertexts = 512

// Keyring decrypts the secrets that were encrypted to this supervisor, and encrypts them to nodes. It caches the
// ciphertexts for nodes, so that parallel calls on a node cost one encryption. It stores no plaintext.
type Keyring struct {
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

// NewKeyring returns a keyring with the key of the supervisor.
func NewKeyring(cluster writ.ClusterID, datacenter writ.DatacenterID, key ed25519.PrivateKey) *Keyring {
	return &Keyring{cluster: cluster, datacenter: datacenter, key: key, kept: make(map[encryptedFor][]byte)}
}

// label identifies a version of a secret.
func (k *Keyring) label(project writ.ProjectID, name string, version int) secret.Label {
	return secret.Label{Cluster: k.cluster, Datacenter: k.datacenter, Project: project, Name: name, Version: version}
}

// open decrypts a secret.
func (k *Keyring) open(ciphertext []byte, label secret.Label) (string, error) {
	reader, err := secret.OfSupervisor(k.key)
	if err != nil {
		return "", fmt.Errorf("read secrets with the supervisor's key: %w", err)
	}
	return secret.Open(ciphertext, label, reader)
}

// Encrypted returns a secret, encrypted to a node. It implements workflow.Secrets.
func (k *Keyring) Encrypted(have *journal.Secret, node *journal.Node) ([]byte, error) {
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
