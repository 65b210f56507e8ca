package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"writ"
	"writ/internal/hidden"
)

// Characters that editors, chats and web pages put in place of "-" and of quotes.
const (
	dashes = "‐‑‒–—―−"
	quotes = "“”„‟‘’‚‛«»"
)

// wrongWords lists the codes of errors that a mistyped argument can cause.
var wrongWords = []writ.Code{
	writ.CodeUsage, writ.CodeNotFound, writ.CodeProjectUnknown, writ.CodeDatacenterUnknown,
}

// WithTypedHint replaces the hint of an error about arguments if an argument is typed in a form that no command reads:
// with typographic characters, with spaces around it, or as a long flag with one dash. It never repeats the value of an
// argument, which can be secret.
func WithTypedHint(cmd *cobra.Command, args []string, err error) error {
	e := writ.AsError(err)
	if e == nil || cmd == nil || !slices.Contains(wrongWords, e.Code) {
		return err
	}
	for i, arg := range args {
		if arg == "--" {
			break
		}
		hint := oddDash(arg)
		if hint == "" {
			hint = longFlag(cmd, arg)
		}
		if odd := oddCharacters(arg); hint == "" && odd != "" {
			hint = fmt.Sprintf("argument %d %s", i+1, odd)
		}
		if hint != "" {
			with := *e
			with.Hint = hint
			return &rehinted{err: err, shown: &with}
		}
	}
	return err
}

// rehinted is an error that is shown with another hint. It keeps the text and the exit code of the original.
type rehinted struct {
	err   error
	shown *writ.Error
}

// Error returns the text of the original error.
func (e *rehinted) Error() string { return e.err.Error() }

// Unwrap returns the error to show, and then the original, which may have its own exit code.
func (e *rehinted) Unwrap() []error { return []error{e.shown, e.err} }

// oddDash returns the hint for a flag that begins with a typographic dash, or "".
func oddDash(arg string) string {
	first, _ := utf8.DecodeRuneInString(arg)
	name, _, _ := strings.Cut(strings.TrimLeft(arg, dashes+"-"), "=")
	if !strings.ContainsRune(dashes, first) || name == "" || strings.ContainsFunc(name, unicode.IsSpace) {
		return ""
	}
	plain := "--" + name
	if utf8.RuneCountInString(name) == 1 {
		plain = "-" + name
	}
	return fmt.Sprintf("the flag begins with a typographic dash: type %s", plain)
}

// longFlag returns the hint for a long flag that begins with one dash, or "".
func longFlag(cmd *cobra.Command, arg string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
	if len(name) < 2 || !strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "--") || cmd.Flag(name) == nil {
		return ""
	}
	return fmt.Sprintf("did you mean --%s? Flags with more than one letter begin with two dashes", name)
}

// oddCharacters describes characters of an argument that a user most likely did not mean, or returns "". A text with
// spaces may have typographic characters.
func oddCharacters(arg string) string {
	first, _ := utf8.DecodeRuneInString(arg)
	last, _ := utf8.DecodeLastRuneInString(arg)
	trimmed := strings.TrimSpace(arg)
	isLine := trimmed != "" && !strings.Contains(trimmed, "\n") // a value of several lines may end with a line break
	if isLine && trimmed != arg && first < utf8.RuneSelf && last < utf8.RuneSelf {
		return "begins or ends with a space: leave it out"
	}
	text := strings.ContainsRune(arg, ' ')
	for _, r := range arg {
		switch {
		case r < utf8.RuneSelf:
		case unicode.IsSpace(r) || hidden.Is(r):
			return fmt.Sprintf("has the invisible character U+%04X: type it again", r)
		case strings.ContainsRune(quotes, r) && (!text || r == first || r == last):
			return fmt.Sprintf("has the typographic quote %c: type a plain one", r)
		case strings.ContainsRune(dashes, r) && !text:
			return fmt.Sprintf("has the typographic dash %c: type -", r)
		}
	}
	return ""
}
