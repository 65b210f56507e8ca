package herodb

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"writ/sal"
	"writ/sal/catalog"
)

// access holds the credentials of a database. They are in a separate file, access.json, which only the driver's user
// may read.
type access struct {
	Version int64 `json:"version"` // the version in the record
	// Secret is the clients' password if the driver generated it. For a password from a script, only the hash is stored.
	Secret string `json:"secret,omitempty"`
	// SHA256 is the hash of the clients' password in hex. Engines with user accounts check passwords with it.
	SHA256 string `json:"sha256"`
	Driver string `json:"driver"` // password of the driver
}

// newAccess returns the credentials of a version. It generates the clients' password if none is given, and keeps the
// driver's password in `before`.
func newAccess(version int64, password catalog.Text, before access) (access, error) {
	a := access{Version: version, Driver: before.Driver}
	if a.Driver == "" {
		a.Driver = randomSecret()
	}
	if !hasPassword(password) {
		a.Secret = randomSecret()
		a.SHA256 = sum(a.Secret)
		return a, nil
	}
	value, err := password.Reveal()
	a.SHA256 = sum(value)
	return a, err
}

// hasPassword reports whether a script sets the password.
func hasPassword(password catalog.Text) bool { return password.String() != "" }

// randomSecret returns 256 random bits in a form that every client accepts.
func randomSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails; it crashes the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func sum(secret string) string {
	s := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(s[:])
}

// prepareAccess writes the next access beside the current one. openAccess makes it current when the record has its
// version.
func (j *job) prepareAccess(a access) error {
	text, err := json.Marshal(a)
	if err == nil {
		err = j.write("access.next", string(text))
	}
	if err != nil {
		return sal.HostError("write the secret", err)
	}
	return nil
}

// openAccess returns the access of a version. If the prepared access has this version, it replaces the current one.
func (j *job) openAccess(version int64) (access, error) {
	next, err := j.readAccess("access.next")
	if err == nil && next.Version == version {
		j.step("put the secret in place")
		if err := os.Rename(j.in("access.next"), j.in("access.json")); err != nil {
			return access{}, sal.HostError("put the secret in place", err)
		}
		if err := sal.SyncDir(j.dir); err != nil {
			return access{}, sal.HostError("put the secret in place", err)
		}
		return next, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return access{}, sal.HostError("read the secret", err)
	}
	a, err := j.readAccess("access.json")
	if err == nil && a.Version != version {
		err = fmt.Errorf("it has version %d, not %d", a.Version, version)
	}
	if err != nil {
		return access{}, sal.HostError("read the secret", err)
	}
	return a, nil
}

func (j *job) readAccess(name string) (access, error) {
	text, err := os.ReadFile(j.in(name))
	if err != nil {
		return access{}, err
	}
	var a access
	err = json.Unmarshal(text, &a)
	return a, err
}
