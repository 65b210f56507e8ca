package member

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"writ/internal/failpoint"
	"writ/sal"
)

const pemKey = "PRIVATE KEY"

// loadKey loads an ed25519 key. It creates one if the file is missing.
func loadKey(path string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, err
		}
		return key, writeFile(path, pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}))
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemKey {
		return nil, damaged(path, errors.New("it is not a PEM file with a private key"))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, damaged(path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, damaged(path, errors.New("it is not an ed25519 key"))
	}
	return key, nil
}

// loadAge loads the key that decrypts secrets. If the file is missing it creates a key, which saveAge must store, and
// returns created = true.
func loadAge(path string) (key *age.X25519Identity, created bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = age.GenerateX25519Identity()
		return key, true, err
	}
	if err != nil {
		return nil, false, err
	}
	if key, err = age.ParseX25519Identity(strings.TrimSpace(string(text))); err != nil {
		return nil, false, damaged(path, errors.New("it is not a private key of age")) // err may quote the key
	}
	return key, false, nil
}

func saveAge(path string, key *age.X25519Identity) error {
	return writeFile(path, []byte(key.String()+"\n"))
}

// writeFile replaces a file atomically: after a crash it has either the old or the new text. Only its owner can read
// it.
func writeFile(path string, text []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = failpoint.OfFile(path).Write(f, text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	err = sal.SyncDir(filepath.Dir(path))
	failpoint.OfFile(path).End(err)
	return err
}
