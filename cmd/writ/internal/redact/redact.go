// Package redact knows what opens something by itself when it is read, and keeps it out of what is shown, logged and stored: private keys of SSH
// and age, join tokens, the tokens of other services, secret addresses of webhooks, and passwords. Errors and logs repeat input, which may be a key in place of its file name. It must not know
// where its texts go.
package redact

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
)

// placeholder stands for what was taken out.
const placeholder = "(secret, not shown)"

// keyPattern finds private keys of SSH and age, and join tokens, also without their end, as in a text that was cut.
var keyPattern = regexp.MustCompile(`-----BEGIN[A-Z ]*PRIVATE KEY-----(?s:.*?)(-----END[A-Z ]*PRIVATE KEY-----|\z)` +
	`|b3BlbnNzaC1rZXktdjEA(?:[A-Za-z0-9+/=\s]|\\[nrt])*` +
	`|AGE-SECRET-KEY-[0-9A-Za-z-]*` +
	`|-----BEGIN PGP PRIVATE KEY BLOCK-----(?s:.*?)(?:-----END PGP PRIVATE KEY BLOCK-----|\z)` +
	`|(writ[0-9]+\.[a-z2-7]{8,}\.)[A-Za-z0-9_-]{8,}`)

// passwordPattern finds passwords among settings and in the environment, in the forms of libpq and shells. A password without its closing quote
// extends to the end of the text, or of the JSON string around it. The pattern also finds secrets in the query of an address, including
// "&" as JSON escapes it. hideAddresses finds the passwords in front of a host.
var passwordPattern = regexp.MustCompile(`(?i)([a-z0-9_]*passw(?:or)?d\s?=\s?)(?:'(?:[^'\\]|\\+.)*'|'(?:[^'"\\]|\\+[^"]|\\*"[^,}\]])*|[^\s"'&\\` + "`" + `]+)` +
	`|((?:[?&]|\\u0026)(?:[a-z0-9_.-]*[_.-])?(?:token|secret|signature|sig|api_?key)=)[^\s"'&#\\` + "`" + `]+` +
	`|((?:[?&]|\\u0026)key=)[a-z0-9_-]{20,}` +
	`|([a-z0-9_]*passw(?:or)?d\\?["']\s?:[\s\[]*\\?["'])[^"'\\]+` +
	`|((?:\b|\\[nrt])authorization["']?[:=]\[?\s?["']?(?:bearer|basic)\s)[a-z0-9+/._~=-]+`)

// likelyPattern finds what may be a password and may be a part of a sentence: what follows "password:", as in YAML, where a line or a text begins with the
// name, and elsewhere a word that has digits and something else; and a long word behind "Bearer".
var likelyPattern = regexp.MustCompile(`(?i)(` + yamlName + `\\*")[^"\\\n]+|(` + yamlName + `\\*')[^'"\\\n]+|(` + yamlName + `)[^\s"'\\][^\s"\\]*` +
	`|(passw(?:or)?d:[ \t]*\\*["']?)(?:[^\s0-9"\\]+[0-9]|[0-9]+[^\s0-9"\\])[^\s"\\]*` +
	`|(\bbearer\s)[a-z0-9+/._~=-]{20,}`)

const yamlName = `(?:(?m:^)|\\[nrt]|["{])[ \t]*(?:-[ \t]+)?(?:[a-z0-9_][a-z0-9_.-]*)?passw(?:or)?d:[ \t]*`

// base64Pattern finds what may be a line from the middle of a key. Its beginning tells what is none: the digest of a public key.
var base64Pattern = regexp.MustCompile(`(?:SHA256:)?[A-Za-z0-9+/]{40,}={0,2}`)

// typePattern finds "ssh-ed25519" in base64, wherever it begins there: a private key has it in its middle.
var typePattern = regexp.MustCompile(`c3NoLWVkMjU1MT|NzaC1lZDI1NTE5|zc2gtZWQyNTUxO`)

// Text takes secrets out of a text.
func Text(s string) string {
	s = keyPattern.ReplaceAllString(s, "${2}"+placeholder)
	s = hidePasswords(hide(likelyPattern, hideLikelyParts(s)))
	return base64Pattern.ReplaceAllStringFunc(s, func(found string) string {
		if mayBeKey(found) {
			return placeholder
		}
		return found
	})
}

// hidePasswords replaces passwords and the tokens of other services.
func hidePasswords(s string) string { return hide(passwordPattern, hideTokens(hideAddresses(s))) }

// hide replaces the matches of a pattern that are still visible. The groups of the pattern stay.
func hide(pattern *regexp.Regexp, s string) string {
	return pattern.ReplaceAllStringFunc(s, func(found string) string {
		groups := pattern.FindStringSubmatch(found)
		before := strings.Join(groups[1:], "")
		done, _, _ := strings.Cut(placeholder, " ") // where the pattern ends at a space
		switch secret := found[len(before):]; {
		case secret == placeholder, secret == done:
			return found
		default:
			return before + placeholder
		}
	})
}

// Holds reports whether a text has a private key, a join token or a password in it. A line from the middle of a key, and what only may be a password, may
// be something else, and do not count.
func Holds(s string) bool { return HoldsToken(s) || hidePasswords(s) != s }

// HoldsToken reports whether a text has a private key or a join token in it, which no other text looks like.
func HoldsToken(s string) bool { return keyPattern.MatchString(s) }

// HoldsKey reports whether a value that should name something is a private key or a token itself, or the beginning of one.
func HoldsKey(value string) bool {
	return strings.ContainsAny(value, "\r\n") || strings.Contains(value, "PRIVATE KEY") || keyPattern.MatchString(value)
}

// mayBeKey tells a run of base64 that may be a part of a key from other words that are as long: a digest in hex, a public key of SSH, a path.
func mayBeKey(run string) bool {
	switch {
	case strings.HasPrefix(run, "SHA256:"), isPublicKey(run):
		return false
	case typePattern.MatchString(run):
		return true
	case looksRandom(run):
		return strings.ContainsAny(run, upper) && strings.ContainsAny(run, lower)
	case 10*strings.Count(run, "/") > len(run), isPath(run):
		return false
	}
	return strings.ContainsAny(run, "0123456789+") && strings.ContainsAny(run, upper) && strings.ContainsAny(run, lower)
}

// isPath reports whether the names between the slashes of a run are made of words, the whole of it and each long name. A name before or behind a line of
// a key hides nothing of the key.
func isPath(run string) bool {
	names := strings.Split(run, "/")
	if len(names) < 2 || strings.ContainsAny(run, "+=") {
		return false
	}
	length, words := 0, 0
	for _, name := range names {
		n := wordsOf(name)
		if len(name) >= longName && len(name) < meanWord*n {
			return false
		}
		length, words = length+len(name), words+n
	}
	return length >= meanWord*words
}

const (
	meanWord = 4  // letters of a word in the names of a path, at least. Of base64 they are 2
	longName = 16 // letters of a name that is looked at alone
)

// wordsOf counts the words of a name: capitals begin one, and digits are one.
func wordsOf(name string) (words int) {
	before := 0
	for i := range len(name) {
		kind := kindOf(name[i])
		if lowers := before == 2 && kind == 3; kind != before && !lowers {
			words++
		}
		before = kind
	}
	return words
}

// The letters that no hex digit is.
const (
	upper = "GHIJKLMNOPQRSTUVWXYZ"
	lower = "ghijklmnopqrstuvwxyz"
)

// looksRandom reports whether at least every other character is of another kind than the one before it, which is so in no words.
func looksRandom(run string) bool {
	changes, before := 0, kindOf(run[0])
	for i := range len(run) {
		if kind := kindOf(run[i]); kind != before {
			changes, before = changes+1, kind
		}
	}
	return 2*changes >= len(run)
}

func kindOf(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return 1
	case c >= 'A' && c <= 'Z':
		return 2
	case c >= 'a' && c <= 'z':
		return 3
	}
	return 4
}

// isPublicKey reports whether base64 begins as every public key of SSH does: with the length of the name of its type, and the name.
func isPublicKey(run string) bool {
	begin, err := base64.StdEncoding.DecodeString(run[:12])
	if err != nil {
		return false
	}
	for _, kind := range []string{"ssh-", "sk-s", "sk-e", "ecds"} {
		if bytes.Equal(begin[:3], []byte{0, 0, 0}) && bytes.HasPrefix(begin[4:], []byte(kind)) {
			return true
		}
	}
	return false
}

// Attr takes secrets out of an attribute of a log. It is a slog.HandlerOptions.ReplaceAttr.
func Attr(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Text(a.Value.String()))
	case slog.KindAny: // an error, or a list of what somebody gave
		text := fmt.Sprintf("%+v", a.Value.Any())
		if shown := Text(text); shown != text {
			a.Value = slog.StringValue(shown)
		}
	}
	return a
}
