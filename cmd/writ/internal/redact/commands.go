package redact

import (
	"strings"

	"writ/internal/lazyregexp"
)

// opaque matches a value that is not a lower-case word of a sentence. It may be in quotes.
const opaque = `[^\s"'\\` + "`" + `]*[^\sa-z"'\\` + "`" + `.,;:()-][^\s"'\\` + "`" + `]*`

// value matches any value up to a space or quote.
const value = `[^\s"'\\` + "`" + `]+`

// start matches the start of a line, also of a line inside a quoted text.
const start = `(?:^|[\s"'\[,(]|\\[nrt])`

// commandForms lists passwords by the word in front of them, in command lines and in files that use spaces between
// name and value. The text of the first group stays visible.
var commandForms = []struct{ program, form string }{
	{
		"options",
		`(` + start + `--?(?i:password|passwd|pass|passphrase|api-?key|client-secret)(?:\\?["']?,\s?|\s+)\\?["']?)` + opaque,
	},
	{"redis.conf", `((?:\b|\\[nrt])(?i:requirepass|masterauth|sentinel\s+auth-pass\s+\S+)\s+\\?["']?)` + opaque},
	{"AUTH of Redis", `((?:\b|\\[nrt])AUTH(?:\s+[a-z0-9_-]+)?\s+\\?["']?)[^\s"'\\]*[0-9][^\s"'\\]*`},
	{"redis-cli", `((?:\b|\\[nrt])redis-cli\s[^\n]{0,200}?-a\s+["']?)` + value},
	{"variables that end with AUTH", `((?:\b|_|\\[nrt])(?i:[a-z0-9]*_auth(?:token)?)\s?=\s?["']?)` + value},
	{"variables", `((?:\b|\\[nrt])(?:SECRET|SECRET_?KEY|PASSPHRASE|API_?KEY)=["']?)` + value},
	{
		"netrc",
		`((?:\b|\\[nrt])machine\s+\S+\s+login\s+\S+\s+password\s+)` + value + `|(\blogin\s+\S+\s+password\s+)` + opaque,
	},
	{"curl", `((?:\b|\\[nrt])curl\s[^\n]{0,200}?(?:-u|--user|--proxy-user)[\s=]?["']?[^\s:"'-][^\s:"']*:)` + value},
	{"sshpass", `((?:\b|\\[nrt])sshpass\s+-p\s?["']?)` + value},
	{"passphrase", `((?i:passphrase)\\?["']?\s?[:=]\s?\\?["']?)` + opaque},
	{"registries", `(\\?"(?:auth|identitytoken|registrytoken)\\?"\s?:\s?\\?")[A-Za-z0-9+/._~-]{8,}={0,2}`},
	{"PuTTY", `(Private-Lines: [0-9]+(?:\r?\n|\\r|\\n)+)(?:[A-Za-z0-9+/=]|\r?\n|\\r|\\n)+`},
}

// commandPatterns holds the compiled commandForms.
var commandPatterns = func() (all []*lazyregexp.Regexp) {
	for _, c := range commandForms {
		all = append(all, lazyregexp.New(c.form))
	}
	return all
}()

// accessRule matches a rule of a Redis user, and accessPassword matches a password in such a rule. A user may have
// several passwords.
var (
	accessRule     = lazyregexp.New(`(?i:(?:\b|\\[nrt])(?:set)?user\s+\S+\s)[^\n]*`)
	accessPassword = lazyregexp.New(`(\s>)` + value)
)

// hideCommands replaces passwords in command lines and in files that use spaces between name and value.
func hideCommands(s string) string {
	for _, p := range commandPatterns {
		s = hide(p, s)
	}
	return accessRule.ReplaceAllStringFunc(s, func(rule string) string {
		if !strings.ContainsAny(rule, "~+&") { // keys, commands and channels of a rule
			return rule
		}
		return hide(accessPassword, rule)
	})
}
