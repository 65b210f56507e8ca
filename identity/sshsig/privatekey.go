package sshsig

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// byteOrderMark precedes the first line of a file that an editor on Windows wrote.
var byteOrderMark = []byte("\ufeff")

// loadPrivateKey reads an ed25519 key from a file that only its owner can read. It calls passphrase for an encrypted
// file.
func loadPrivateKey(path string, passphrase func() ([]byte, error)) (ed25519.PrivateKey, error) {
	text, err := readPrivateFile(path)
	if err != nil {
		return nil, err
	}
	if onSecurityKey(text) {
		return nil, unusable("%s is a key on a security key, which signs through the ssh-agent", path).
			WithHint("plug it in and load the key: ssh-add %s", path)
	}
	raw, err := ssh.ParseRawPrivateKey(text)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		raw, err = decryptPrivateKey(path, text, passphrase)
		if err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, unreadableKey(path, text)
	}
	key, ok := ed25519Key(raw)
	if !ok {
		return nil, unusable("the signing key %s is not an ed25519 key: it is %s", path, keyKind(raw)).
			WithHint("make one with `ssh-keygen -t ed25519`")
	}
	if !bytes.Equal(ed25519.NewKeyFromSeed(key.Seed()), key) {
		return nil, unusable("the signing key %s is damaged: its public part is of another key", path)
	}
	return key, nil
}

func readPrivateFile(path string) ([]byte, error) {
	if private, ok := strings.CutSuffix(path, ".pub"); ok {
		return nil, unusable("%s is a public key, which cannot sign", path).
			WithHint("name the private key: --key %s, or --key agent for a key of your ssh-agent", private)
	}
	info, err := os.Stat(path)
	if err != nil {
		e := unusable("cannot read the signing key: %v", err)
		if errors.Is(err, fs.ErrNotExist) {
			e = e.WithHint("make a key with `ssh-keygen -t ed25519 -f %s`, or name another with --key", path)
		}
		return nil, e
	}
	if info.Mode().Perm()&0o077 != 0 && info.Mode().IsRegular() && os.PathSeparator == '/' {
		return nil, unusable("others may read the signing key %s", path).WithHint("chmod 600 %s", path)
	}
	if info.IsDir() {
		return nil, unusable("the signing key %s is a directory", path).
			WithHint("name the file in it, for example --key %s", filepath.Join(path, "id_ed25519"))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, unusable("cannot read the signing key: %v", err)
	}
	return bytes.TrimPrefix(text, byteOrderMark), nil
}

func decryptPrivateKey(path string, text []byte, passphrase func() ([]byte, error)) (any, error) {
	if passphrase == nil {
		return nil, unusable("the signing key %s is locked with a passphrase", path).
			WithHint("load it into the agent: ssh-add %s", path)
	}
	phrase, err := passphrase()
	if err != nil {
		return nil, unusable("no passphrase for the signing key %s: %w", path, err)
	}
	raw, err := ssh.ParseRawPrivateKeyWithPassphrase(text, phrase)
	if err != nil {
		return nil, unusable("the passphrase does not open the signing key %s", path)
	}
	return raw, nil
}

// ed25519Key returns the ed25519 key parsed by package ssh: a pointer for OpenSSH's format, a value for PKCS#8.
func ed25519Key(raw any) (ed25519.PrivateKey, bool) {
	switch key := raw.(type) {
	case *ed25519.PrivateKey:
		return *key, true
	case ed25519.PrivateKey:
		return key, true
	}
	return nil, false
}

func keyKind(raw any) string {
	switch raw.(type) {
	case *rsa.PrivateKey:
		return "an RSA key"
	case *ecdsa.PrivateKey:
		return "an ECDSA key"
	case *ecdh.PrivateKey:
		return "an X25519 key, which encrypts and cannot sign"
	}
	return "a key of another type"
}

// onSecurityKey reports whether a private key file only refers to a security key. The key type is in the public part,
// even if a passphrase encrypts the rest.
func onSecurityKey(text []byte) bool {
	block, _ := pem.Decode(text)
	return block != nil && block.Type == "OPENSSH PRIVATE KEY" &&
		bytes.Contains(block.Bytes, []byte(ssh.KeyAlgoSKED25519))
}

func isSSHPublicKey(text []byte) bool {
	_, _, _, _, err := ssh.ParseAuthorizedKey(text)
	return err == nil
}
