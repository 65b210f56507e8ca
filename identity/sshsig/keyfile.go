package sshsig

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"writ/internal/failpoint"
)

// LoadOrCreateKey returns the ed25519 key of a machine (a supervisor or node) from an OpenSSH private key file without
// a passphrase. If the file is missing, it creates a key and the file with mode 0600, and returns after the file is on
// disk. Concurrent processes get the same key. An existing file is never replaced.
func LoadOrCreateKey(path string) (ed25519.PrivateKey, error) {
	err := createFile(path, func() ([]byte, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		block, err := ssh.MarshalPrivateKey(key, "writ")
		if err != nil {
			return nil, err
		}
		return pem.EncodeToMemory(block), nil
	})
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return loadPrivateKey(path, nil)
}

// createFile creates a file atomically and durably, unless it exists.
func createFile(path string, content func() ([]byte, error)) error {
	if _, err := os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := content()
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	temp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = failpoint.OfFile(path).Write(temp, text)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, fails if another process has created the file. The existing file is then used.
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = errors.Join(d.Sync(), d.Close())
	failpoint.OfFile(path).End(err)
	return err
}

// Fingerprint returns the fingerprint of a machine's key, "SHA256:…" as printed by `ssh-keygen -l`, or "-" for an
// invalid key.
func Fingerprint(key ed25519.PublicKey) string {
	k := SSHKey(key)
	if k == nil {
		return "-"
	}
	return ssh.FingerprintSHA256(k)
}
