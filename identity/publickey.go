package identity

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// ParsePublicKey parses a file with one public key in OpenSSH's format. It skips empty lines and comments. It rejects a
// second key, options of authorized_keys and invalid lines, because the caller would lose them. The error contains line
// numbers, key types and option names, but no other part of the file.
func ParsePublicKey(text []byte) (ssh.PublicKey, error) {
	var found ssh.PublicKey
	var kinds []string
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, _, options, _, err := ssh.ParseAuthorizedKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d is not a public key of SSH", number)
		}
		if len(options) > 0 {
			return nil, fmt.Errorf("line %d has the options of authorized_keys %s, which would be lost", number, optionNames(options))
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

// optionNames lists options without their values, which may be secret, as in environment="TOKEN=…".
func optionNames(options []string) string {
	names := make([]string, len(options))
	for i, option := range options {
		names[i], _, _ = strings.Cut(option, "=")
	}
	return strings.Join(names, ", ")
}
