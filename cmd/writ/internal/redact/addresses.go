package redact

import (
	"slices"
	"strings"

	"writ/internal/lazyregexp"
)

// schemePattern matches the scheme of an address with an authority.
var schemePattern = lazyregexp.New(`(?i)\b[a-z][a-z0-9+.-]*://|\\[nrt][a-z][a-z0-9+.-]*://`)

// stores lists the schemes of databases and queues. People paste passwords into such addresses unescaped, so the
// password extends to the last "@".
var stores = []string{
	"postgres://", "postgresql://", "redis://", "rediss://", "unix://", "mysql://", "mongodb://", "mongodb+srv://",
	"amqp://", "amqps://", "nats://",
}

// hideAddresses replaces passwords in addresses and the secret part of webhook addresses.
func hideAddresses(s string) string {
	return eachAddress(s, func(scheme, address string) string { return hideHook(scheme, hidePassword(scheme, address)) })
}

// hideLikelyParts replaces parts of addresses that are probably tokens: a user without a password, and path segments.
func hideLikelyParts(s string) string {
	return eachAddress(s, func(scheme, address string) string { return hideSegments(scheme, hideTokenUser(address)) })
}

// eachAddress replaces the part after "://" of each address in s by the result of the function `hide`. The arguments of
// `hide` are the lower-case scheme with "://" and the part to replace.
func eachAddress(s string, hide func(scheme, address string) string) string {
	var b strings.Builder
	for {
		at := schemePattern.FindStringIndex(s)
		if at == nil {
			b.WriteString(s)
			return b.String()
		}
		scheme, rest := strings.ToLower(strings.TrimLeft(s[at[0]:at[1]], `\`)), s[at[1]:]
		if s[at[0]] == '\\' { // an escaped line end or tab before the scheme: \n, \r or \t
			scheme = scheme[1:]
		}
		end := addressEnd(rest)
		b.WriteString(s[:at[1]] + hide(scheme, rest[:end]))
		s = rest[end:]
	}
}

// addressEnd returns the length of the address at the start of s, without trailing punctuation of the surrounding
// sentence.
func addressEnd(s string) int { return len(strings.TrimRight(s[:runEnd(s)], ".,:;!?")) }

// runEnd returns the end of the address at the start of s. An address ends at white space, a control character, a
// quote, an angle bracket, an escaped line end, tab or quote, or the next address of a list. A single quote inside a
// word belongs to the address, because passwords may contain one. The placeholder also belongs to the address, although
// it contains spaces.
func runEnd(s string) int {
	for i := 0; i < len(s); i++ {
		rest := s[i:]
		switch c := s[i]; {
		case strings.HasPrefix(rest, placeholder):
			i += len(placeholder) - 1
		case c <= ' ', c == '"', c == '`', c == '<', c == '>':
			return i
		case c == '\\' && len(rest) > 1 && strings.IndexByte(`nrt"`, rest[1]) >= 0:
			return i
		case c == '\'' && (len(rest) == 1 || !isWord(rest[1])):
			return i
		case c == ',' && nextAddress.MatchString(rest):
			return i
		}
	}
	return len(s)
}

var nextAddress = lazyregexp.New(`(?i)^,[a-z][a-z0-9+.-]*://`)

func isWord(c byte) bool { return kindOf(c) < 4 }

// hidePassword replaces the password in an address.
func hidePassword(scheme, address string) string {
	last := strings.LastIndexByte(address, '@')
	if last < 0 || strings.HasPrefix(address, "/") {
		return address
	}
	host := address[last:]
	name, password, has := strings.Cut(address[:last], ":")
	switch {
	case !has || password == "" || strings.HasSuffix(password, placeholder):
		return address
	case isStore(scheme):
	case strings.ContainsAny(name, "/?#"), isPort(password) && !isUser(name, host[1:]):
		return address
	}
	return name + ":" + placeholder + host
}

// hideTokenUser replaces the user of an address without a password if the user looks like a token.
func hideTokenUser(address string) string {
	user, _, has := strings.Cut(address, "@")
	if !has || !isOpaque(user) {
		return address
	}
	return placeholder + address[len(user):]
}

func isStore(scheme string) bool { return slices.Contains(stores, scheme) }

// isPort reports whether text, which follows the first colon, starts with a port and a path.
func isPort(text string) bool {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	return digits > 0 && digits <= 5 && digits < len(text) && strings.IndexByte("/?#", text[digits]) >= 0
}

// strongHost matches text that is certainly a host: localhost, a name with dots and no trailing digits, an IP address,
// or a name with a port.
var strongHost = lazyregexp.New(`^(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}|[0-9]+(?:\.[0-9]+){3}|\[[0-9a-fA-F:.]+\]|[A-Za-z][A-Za-z0-9.-]*:[0-9]{2,5})(?:[:/?#]|$)`)

// isUser decides an ambiguous address such as alice:12/34@db.example: either user alice with password 12/34, or server
// alice with the path /34@db.example. It reports a user if a host follows the "@" and name is not itself a host:
// neither localhost nor an IPv6 address nor a name with a dot.
func isUser(name, host string) bool {
	return !strings.ContainsAny(name, ".[") && name != "localhost" && strongHost.MatchString(host)
}

// isOpaque reports whether word is a token rather than a name: at least 20 letters, digits and underscores, with at
// least one digit.
func isOpaque(word string) bool {
	return len(word) >= 20 && strings.ContainsAny(word, "0123456789") &&
		strings.Trim(word, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}

// hooks matches a webhook address up to its secret part, which follows the host or a path segment.
var hooks = lazyregexp.New(`(?i)^(?:[^/?#]*@)?(?:(?:hooks?|webhooks?|[^/?#]*\.webhooks?)\.[^/?#]*/(?:(?:services|workflows|triggers|hooks?|webhooks?|webhookb2)/)?` +
	`|[^?#]*?/(?:hooks?|webhooks?|webhookb2|incomingwebhook)/)`)

// plainPath matches a path without a secret: one short word.
var plainPath = lazyregexp.New(`^[a-z]{0,11}/?$`)

// hideHook replaces the secret part of a webhook address.
func hideHook(scheme, address string) string {
	at := hooks.FindStringIndex(address)
	if at == nil || !isWeb(scheme) {
		return address
	}
	if secret := address[at[1]:]; plainPath.MatchString(secret) || secret == placeholder {
		return address
	}
	return address[:at[1]] + placeholder
}

// hideSegments replaces path segments that consist of random letters and digits.
func hideSegments(scheme, address string) string {
	host, path, has := strings.Cut(address, "/")
	if !has || !isWeb(scheme) {
		return address
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if isOpaque(segment) && looksRandom(segment) && strings.ContainsAny(segment, upper) &&
			strings.ContainsAny(segment, lower) {
			segments[i] = placeholder
		}
	}
	return host + "/" + strings.Join(segments, "/")
}

func isWeb(scheme string) bool { return scheme == "https://" || scheme == "http://" }
