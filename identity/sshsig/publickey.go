package sshsig

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"writ/internal/lazyregexp"
)

// ParsePublicKey parses a file with one public key in OpenSSH's format. It skips empty lines and comments. It rejects a
// second key, options of authorized_keys and invalid lines, because the caller would lose them. The error contains line
// numbers, key types and option names, but no other part of the file.
func ParsePublicKey(text []byte) (ssh.PublicKey, error) {
	var found ssh.PublicKey
	var kinds []string
	number := 0
	for line := range bytes.Lines(bytes.TrimPrefix(text, byteOrderMark)) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, comment, options, _, err := ssh.ParseAuthorizedKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d %s", number, notAKey(line))
		}
		if hasKey(comment) {
			return nil, fmt.Errorf("line %d has a second key after the first: put each on its own line", number)
		}
		if len(options) > 0 {
			return nil, fmt.Errorf("line %d has the options of authorized_keys %s, which would be lost", number,
				optionNames(options))
		}
		found = key
		kinds = append(kinds, key.Type())
	}
	switch len(kinds) {
	case 0:
		return nil, errors.New("it contains no public key of SSH")
	case 1:
		return found, nil
	}
	return nil, fmt.Errorf("there are %d keys (%s) where one is expected", len(kinds), strings.Join(kinds, ", "))
}

// hasKey reports whether a comment contains a public key. This happens if two lines were joined by mistake.
func hasKey(comment string) bool {
	for word := range strings.FieldsSeq(comment) {
		if blob, err := base64.StdEncoding.DecodeString(word); err == nil {
			if _, err := ssh.ParsePublicKey(blob); err == nil {
				return true
			}
		}
	}
	return false
}

// notAKey describes why a line is not a public key, without quoting it.
func notAKey(line []byte) string {
	words := bytes.Fields(line)
	first := string(words[0])
	switch {
	case line[0] == '"' || line[0] == '\'':
		return "begins with a quotation mark: remove it, and the one at the end"
	case slices.Contains(ssh.SupportedAlgorithms().PublicKeyAuths, first) && len(words) > 1:
		return "has a key of the type " + first + " that is cut off or damaged"
	case slices.Contains(ssh.SupportedAlgorithms().PublicKeyAuths, first):
		return "has the type " + first + " and no key after it: a key is one line"
	case strings.HasPrefix(first, "ssh-") && keyType.MatchString(first):
		return "has a key of the unknown or obsolete type " + first
	}
	return "is not a public key of SSH"
}

// keyType matches names of key types.
var keyType = lazyregexp.New(`^[a-z0-9@.-]{1,64}$`)

// optionNames lists options without their values, which may be secret: environment="TOKEN=…".
func optionNames(options []string) string {
	names := make([]string, len(options))
	for i, option := range options {
		names[i], _, _ = strings.Cut(option, "=")
	}
	return strings.Join(names, ", ")
}

// SSHKey converts an ed25519 key to a key of package ssh. It returns nil if the key has the wrong length.
func SSHKey(key ed25519.PublicKey) ssh.PublicKey {
	if len(key) != ed25519.PublicKeySize {
		return nil
	}
	k, err := ssh.NewPublicKey(key)
	if err != nil {
		panic(err) // the length is correct
	}
	return k
}
