// Package serveraddr parses the addresses of servers that may contain a password. It does not depend on the protocols
// of these servers.
package serveraddr

import (
	"errors"
	"net/url"
	"strings"
)

// Hint is the advice about a password that is not escaped.
const Hint = "in a user or password write / as %2F, @ as %40, : as %3A, ? as %3F, # as %23 and % as %25"

var (
	errInvalid   = errors.New("it is not a valid URL")
	errUnescaped = errors.New("it has an @ after the host; the password may not be escaped")
)

// Parse parses an address. Its errors contain no part of the address. The errors of url.Parse contain the address, and
// may show a password up to its first slash.
//
// It rejects an address with an "@" behind the authority. url.Parse reads redis://user:12/rest@host as the port 12 of
// the host "user", and later errors would show the rest of the password as a path. An address without an authority,
// such as unix:///run/redis@1.sock, may have an "@".
func Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil && IsUnescaped(text):
		return nil, errUnescaped
	case err != nil:
		return nil, errInvalid
	case IsUnescaped(text):
		return nil, errUnescaped
	}
	return u, nil
}

// IsUnescaped reports whether an address has an "@" behind its authority.
func IsUnescaped(text string) bool {
	_, rest, has := strings.Cut(text, "://")
	end := strings.IndexAny(rest, "/?#")
	return has && end > 0 && strings.Contains(rest[end:], "@")
}

// HasPassword reports whether an address contains a password, even if the address is not a valid URL.
func HasPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil || IsUnescaped(text) {
		_, rest, has := strings.Cut(text, "://")
		return has && strings.Contains(rest, ":") && strings.Contains(rest, "@")
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password")
}
