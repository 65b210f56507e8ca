// Package redact removes secrets from text before the text is shown, logged or stored. Errors and logs repeat input,
// and a user may paste a key in place of its file name. A secret is a value that gives every reader access: SSH and age
// private keys, join tokens, tokens of other services, secret webhook addresses, and passwords. The package must not
// know where the text goes.
package redact

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"writ/internal/lazyregexp"
)

// placeholder replaces a secret.
const placeholder = "(secret, not shown)"

// keyPattern matches SSH and age private keys and join tokens. It also matches keys without an end, as in truncated
// text.
var keyPattern = lazyregexp.New(`-----BEGIN[A-Z ]*PRIVATE KEY-----(?s:.*?)(-----END[A-Z ]*PRIVATE KEY-----|\z)` +
	`|b3BlbnNzaC1rZXktdjEA(?:[A-Za-z0-9+/=\s]|\\[nrt])*` +
	`|AGE-SECRET-KEY-[0-9A-Za-z-]*` +
	`|-----BEGIN PGP PRIVATE KEY BLOCK-----(?s:.*?)(?:-----END PGP PRIVATE KEY BLOCK-----|\z)` +
	`|(writ[0-9]+\.[a-z2-7]{8,}\.)[A-Za-z0-9_-]{8,}`)

// passwordPattern matches passwords in settings and environment variables, in the syntax of libpq and shells. A
// password without its closing quote extends to the end of the text or of the surrounding JSON string. The pattern also
// matches secrets in the query of an address, including "&" as JSON escapes it. hideAddresses handles passwords in
// front of a host.
var passwordPattern = lazyregexp.New(`(?i)([a-z0-9_]*passw(?:or)?d\s?=\s?)(?:'(?:[^'\\]|\\+.)*'|'(?:[^'"\\]|\\+[^"]|\\*"[^,}\]])*|[^\s"'&\\` + "`" + `]+)` +
	`|((?:[?&]|\\u0026)(?:[a-z0-9_.-]*[_.-])?(?:token|secret|signature|sig|api_?key)=)[^\s"'&#\\` + "`" + `]+` +
	`|((?:[?&]|\\u0026)key=)[a-z0-9_-]{20,}` +
	`|([a-z0-9_]*passw(?:or)?d\\?["']\s?:[\s\[]*\\?["'])[^"'\\]+` +
	`|((?:\b|\\[nrt])authorization["']?[:=]\[?\s?["']?(?:bearer|basic)\s)[a-z0-9+/._~=-]+`)

// likelyPattern matches text that may be a password or part of a sentence. At the start of a line or text, as in YAML,
// it matches any value after "password:". Elsewhere the value must contain digits and another character. It also
// matches a long word after "Bearer".
var likelyPattern = lazyregexp.New(`(?i)(` + yamlName + `\\*")[^"\\\n]+|(` + yamlName + `\\*')[^'"\\\n]+|(` + yamlName + `)[^\s"'\\][^\s"\\]*` +
	`|(passw(?:or)?d:[ \t]*\\*["']?)(?:[^\s0-9"\\]+[0-9]|[0-9]+[^\s0-9"\\])[^\s"\\]*` +
	`|(\bbearer\s)[a-z0-9+/._~=-]{20,}`)

const yamlName = `(?:(?m:^)|\\[nrt]|["{])[ \t]*(?:-[ \t]+)?(?:[a-z0-9_][a-z0-9_.-]*)?passw(?:or)?d:[ \t]*`

// base64Pattern matches text that may be a line from the middle of a key. The optional prefix identifies the digest of
// a public key, which is not secret.
var base64Pattern = lazyregexp.New(`(?:SHA256:)?[A-Za-z0-9+/]{40,}={0,2}`)

// typePattern matches the base64 encoding of "ssh-ed25519" at each of the three possible alignments. A private key
// contains it in the middle.
var typePattern = lazyregexp.New(`c3NoLWVkMjU1MT|NzaC1lZDI1NTE5|zc2gtZWQyNTUxO`)

// Text replaces the secrets in s.
func Text(s string) string {
	if isPlain(s) || harmless.has(s) {
		return s
	}
	hidden := searched(s)
	if hidden == s {
		harmless.add(s)
	}
	return hidden
}

// harmless holds short texts without a secret that were searched before: the messages and names in a log repeat.
var harmless = knownTexts{texts: make(map[string]bool)}

// knownTexts is a bounded set of short texts.
type knownTexts struct {
	mu    sync.RWMutex
	texts map[string]bool
}

// A set of knownTexts holds at most maxKnown texts of at most maxKnownText bytes. It is emptied when it is full.
const maxKnown, maxKnownText = 1000, 100

func (k *knownTexts) has(s string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.texts[s]
}

func (k *knownTexts) add(s string) {
	if len(s) > maxKnownText {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.texts) >= maxKnown {
		clear(k.texts)
	}
	k.texts[strings.Clone(s)] = true
}

// maxPlainName is the longest name that cannot be a secret: the shortest tokens of tokenForms have 13 characters.
// maxPlainID is the longest id of lower-case letters and digits that cannot be a secret: a token of these characters
// has 36.
const maxPlainName, maxPlainID = 12, 32

// isPlain reports whether s needs no search, because no pattern matches texts of its characters: an id, a time, an IP
// address, a number or a short name. Most attributes of a log are plain, and a search takes about 0.1 ms.
func isPlain(s string) bool {
	numeric, id, name := true, len(s) <= maxPlainID, len(s) <= maxPlainName
	for i := 0; i < len(s) && (numeric || id || name); i++ {
		c := s[i]
		digit, letter, mark := c >= '0' && c <= '9', c >= 'a' && c <= 'z', c == '.' || c == '-'
		numeric = numeric && (digit || letter && c <= 'f' || mark || c == ':' || c == '[' || c == ']')
		id = id && (digit || letter)
		name = name && (digit || letter || mark || c == '_' || c >= 'A' && c <= 'Z')
	}
	return numeric || id || name
}

// searched is Text with all patterns.
func searched(s string) string {
	s = keyPattern.ReplaceAllString(s, "${2}"+placeholder)
	s = hidePasswords(hide(likelyPattern, hideLikelyParts(s)))
	return base64Pattern.ReplaceAllStringFunc(s, func(found string) string {
		if mayBeKey(found) {
			return placeholder
		}
		return found
	})
}

// hidePasswords replaces passwords and tokens of other services.
func hidePasswords(s string) string {
	return hideCommands(hide(passwordPattern, hideTokens(hideAddresses(s))))
}

// hide replaces the matches of pattern. It keeps the text of the pattern's groups and skips secrets that are already
// replaced.
func hide(pattern *lazyregexp.Regexp, s string) string {
	return pattern.ReplaceAllStringFunc(s, func(found string) string {
		groups := pattern.FindStringSubmatch(found)
		before := strings.Join(groups[1:], "")
		done, _, _ := strings.Cut(placeholder, " ") // a pattern that stops at spaces matches only this word
		switch secret := found[len(before):]; {
		case secret == placeholder, secret == done:
			return found
		default:
			return before + placeholder
		}
	})
}

// Holds reports whether s contains a private key, a token or a password. It ignores lines from the middle of a key and
// likely passwords, because these may be harmless text.
func Holds(s string) bool { return HoldsToken(s) || hidePasswords(s) != s }

// HoldsToken reports whether s contains a private key or a join token. Both have a form that no other text has.
func HoldsToken(s string) bool { return keyPattern.MatchString(s) }

// HoldsKey reports whether value, which should be a name, is a private key, a token, or the start of one.
func HoldsKey(value string) bool {
	return strings.ContainsAny(value, "\r\n") || strings.Contains(value, "PRIVATE KEY") || keyPattern.MatchString(value)
}

// mayBeKey reports whether a run of base64 may be part of a key. It excludes other long text: hex digests, SSH public
// keys and paths.
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

// isPath reports whether the run looks like a path made of words. Both the whole run and each long name in it must
// pass, so a harmless name next to a line of a key does not hide the key.
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
	meanWord = 4  // minimum average letters per word in a path; base64 has 2
	longName = 16 // minimum length of a name that is checked on its own
)

// wordsOf counts the words of a name. A capital letter starts a word, and a run of digits is a word.
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

// Letters that are not hex digits.
const (
	upper = "GHIJKLMNOPQRSTUVWXYZ"
	lower = "ghijklmnopqrstuvwxyz"
)

// looksRandom reports whether at least half of the characters differ in kind from their predecessor. In words, fewer
// characters differ.
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

// isPublicKey reports whether the run starts like every SSH public key in base64: with the length of the type name,
// then the name.
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

// Attr removes secrets from a log attribute. It has the signature of slog.HandlerOptions.ReplaceAttr.
func Attr(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Text(a.Value.String()))
	case slog.KindAny: // an error, or a list of user input
		text := fmt.Sprintf("%+v", a.Value.Any())
		if shown := Text(text); shown != text {
			a.Value = slog.StringValue(shown)
		}
	}
	return a
}
