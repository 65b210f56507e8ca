// Package secret encrypts the value of a secret for one reader. A client encrypts it for the supervisor of a
// datacenter, and the supervisor encrypts it for a node. The plaintext contains the secret's project, name and version,
// so that a ciphertext cannot replace another. The package does not authenticate the sender of a ciphertext. The
// receiver must first verify the signature of the message that contains the ciphertext.
//
// The cipher is age (filippo.io/age). A supervisor decrypts with its ed25519 key, which the roster contains. A node
// decrypts with an X25519 key, whose public part it sent when it joined.
package secret

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"filippo.io/age"
	"filippo.io/age/agessh"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/cbor"
)

const (
	// MaxValue limits a value, in bytes.
	MaxValue = 32 << 10
	// MaxCiphertext limits a ciphertext, in bytes: value, label, padding and the overhead of age.
	MaxCiphertext = MaxValue + 4<<10
	// padTo is the block size of the padded plaintext, in bytes. It hides the length of short values.
	padTo = 256
)

// Label identifies the secret of a value.
type Label struct {
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Project    writ.ProjectID    `json:"project"`
	Name       string            `json:"name"`
	Version    int               `json:"version"`
}

// String returns "db-password@3".
func (l Label) String() string { return identity.SecretRef(l.Name, l.Version) }

// AccountLabel is the label of a node's password at the queue. No secret of a project has such a name.
func AccountLabel(cluster writ.ClusterID, datacenter writ.DatacenterID, node writ.NodeID) Label {
	return Label{Cluster: cluster, Datacenter: datacenter, Name: "account/" + string(node)}
}

// envelope is the plaintext.
type envelope struct {
	Label
	Value string `json:"value"`
}

// Check returns nil if value is valid. The error is TOO_LARGE or BAD_REQUEST.
func Check(value string) error {
	switch {
	case value == "":
		return writ.Errorf(writ.CodeBadRequest, "the secret is empty").
			WithHint("give at least one character; `writ secret remove` removes a secret")
	case len(value) > MaxValue:
		return writ.Errorf(writ.CodeTooLarge, "the secret has %d bytes; %d are allowed", len(value), MaxValue).
			WithHint("put large data into an image or a volume, and only its key into a secret")
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return writ.Errorf(writ.CodeBadRequest, "the secret is not text: it has bytes that are not UTF-8, or are zero").
			WithHint("encode it first, for example with base64")
	}
	return nil
}

// Encrypt encrypts a value for one reader.
func Encrypt(value string, label Label, reader age.Recipient) ([]byte, error) {
	if err := Check(value); err != nil {
		return nil, err
	}
	body, err := cbor.Marshal(envelope{label, value})
	if err != nil {
		return nil, fmt.Errorf("encode the secret: %w", err)
	}
	padded := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	padded = append(padded, body...)
	padded = append(padded, make([]byte, -len(padded)&(padTo-1))...)
	var ciphertext bytes.Buffer
	w, err := age.Encrypt(&ciphertext, reader)
	if err == nil {
		_, err = w.Write(padded)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("encrypt the secret: %w", err)
	}
	return ciphertext.Bytes(), nil
}

// Open decrypts a value. The label in the plaintext must equal label. The error is always SECRET_UNREADABLE, and a
// retry does not help.
func Open(ciphertext []byte, label Label, reader age.Identity) (string, error) {
	value, err := open(ciphertext, label, reader)
	if err != nil {
		e := writ.Errorf(writ.CodeSecretUnreadable, "the secret %s cannot be opened", label).
			WithHint("`writ secret set %s` encrypts it again; a node that cannot open it has lost its key and must join again",
				label.Name)
		e.Err = err
		return "", e
	}
	return value, nil
}

func open(ciphertext []byte, label Label, reader age.Identity) (string, error) {
	if len(ciphertext) > MaxCiphertext {
		return "", fmt.Errorf("it has %d bytes", len(ciphertext))
	}
	r, err := age.Decrypt(bytes.NewReader(ciphertext), reader)
	if err != nil {
		return "", err
	}
	padded, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	body, err := unpad(padded)
	if err != nil {
		return "", err
	}
	var e envelope
	if err := cbor.Unmarshal(body, &e); err != nil {
		return "", err
	}
	if e.Label != label {
		return "", fmt.Errorf("it is %s of project %s in datacenter %s", e.Label, e.Project, e.Datacenter)
	}
	return e.Value, Check(e.Value)
}

func unpad(padded []byte) ([]byte, error) {
	if len(padded) < 4 || len(padded)%padTo != 0 {
		return nil, fmt.Errorf("its content has %d bytes", len(padded))
	}
	n := binary.BigEndian.Uint32(padded)
	body := padded[4:]
	if uint64(n) > uint64(len(body)) || len(body)-int(n) >= padTo || len(bytes.Trim(body[n:], "\x00")) > 0 {
		return nil, fmt.Errorf("its padding is invalid")
	}
	return body[:n], nil
}

// ForSupervisor returns the recipient for a supervisor's key in the roster.
func ForSupervisor(key ed25519.PublicKey) (age.Recipient, error) {
	return agessh.NewEd25519Recipient(sshsig.SSHKey(key))
}

// OfSupervisor returns the identity that decrypts values for a supervisor.
func OfSupervisor(key ed25519.PrivateKey) (age.Identity, error) {
	return agessh.NewEd25519Identity(key)
}

// ForNode returns the recipient for the public key that a node sent when it joined. The error is SECRET_UNREADABLE.
func ForNode(key string) (age.Recipient, error) {
	r, err := age.ParseX25519Recipient(key)
	if err != nil {
		e := writ.Errorf(writ.CodeSecretUnreadable, "the node has no key for encrypted secrets").
			WithHint("let it join again")
		e.Err = err
		return nil, e
	}
	return r, nil
}
