package terminal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"writ"
	"writ/cmd/writ/internal/redact"
)

// ExitError is an error with its own exit code.
type ExitError struct {
	Err  error // nil if the error was already shown
	Exit int
}

// Error returns the text of the wrapped error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Exit)
	}
	return e.Err.Error()
}

// Unwrap returns the wrapped error.
func (e *ExitError) Unwrap() error { return e.Err }

// Interrupted returns the error of a command interrupted by the user. next is the text that explains how to continue.
func Interrupted(next string) error {
	return &ExitError{Err: &interrupted{next}, Exit: writ.ExitInterrupted}
}

type interrupted struct{ next string }

func (e *interrupted) Error() string { return "interrupted" }

// ExitCode returns the exit code for err.
func ExitCode(err error) int {
	if err == nil {
		return writ.ExitDone
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Exit
	}
	return writ.AsError(err).Code.Info().Exit
}

// Fail shows an error with its message, code and hint. With -o json it writes the error as one line of JSON.
func (t *Terminal) Fail(err error) {
	if e, ok := errors.AsType[*ExitError](err); ok && e.Err == nil {
		return
	}
	if e, ok := errors.AsType[*interrupted](err); ok {
		if e.next != "" {
			fmt.Fprintln(t.Err, CleanLines(e.next))
		}
		return
	}
	e := forPeople(err)
	if t.Format == JSON {
		if text, err := json.Marshal(e); err == nil {
			fmt.Fprintf(t.Err, "%s\n", harmless(text))
			return
		}
	}
	fmt.Fprint(t.Err, errorText(e, t.styles.bad.Render("error:"), t.styles.hint.Render("hint:")))
}

// ErrorText returns the text that Fail shows for err, without colours.
func ErrorText(err error) string { return errorText(forPeople(err), "error:", "hint:") }

func errorText(e *writ.Error, label, hintLabel string) string {
	first, rest, more := strings.Cut(CleanLines(e.Message), "\n")
	text := fmt.Sprintf("%s %s [%s]\n", label, first, Clean(string(e.Code)))
	if more {
		text += rest + "\n"
	}
	if hint := cmp.Or(e.Hint, remedy(e.Code)); hint != "" {
		text += fmt.Sprintf("%s %s\n", hintLabel, CleanLines(hint))
	}
	return text
}

// remedy returns the default hint for an error without one: the remedy of its code, or the command that explains the
// code. It is empty for unknown codes and for codes whose messages are self-explanatory.
func remedy(code writ.Code) string {
	info := code.Info()
	switch code {
	case writ.CodeInternal, writ.CodeUsage, writ.CodeScriptInvalid, writ.CodeScriptFailed:
		return ""
	}
	if info.Code != code {
		return ""
	}
	return cmp.Or(info.Remedy, "writ explain "+string(code))
}

// forPeople returns the error to show. Unlike a server, the command line shows internal errors in full, because its
// user is the person who can fix a full disk or an occupied port. Secrets are redacted.
func forPeople(err error) *writ.Error {
	e, ok := errors.AsType[*writ.Error](err)
	if !ok {
		e = &writ.Error{Code: writ.CodeInternal, Message: err.Error()}
	}
	shown := *e
	shown.Message, shown.Hint = redact.Text(e.Message), redact.Text(e.Hint)
	return &shown
}
