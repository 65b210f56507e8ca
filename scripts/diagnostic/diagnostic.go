// Package diagnostic describes the findings of a check in a script: one finding with its place, lists of findings, and
// the table of all codes. It formats them for terminals and as errors. It does not find anything itself.
package diagnostic

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"writ/internal/hidden"
)

// Diagnostic is one finding in a script, and its place.
type Diagnostic struct {
	Code     string   `json:"code"` // a row of the table Codes
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Help     string   `json:"help,omitempty"` // the suggested correction: `did you mean "memory_mib"?`
	File     string   `json:"file"`
	Line     int      `json:"line"`   // from 1
	Column   int      `json:"column"` // from 1, in bytes, as in every position of a script
	Width    int      `json:"width"`  // of the span, in bytes; the span ends on the same line
	Text     string   `json:"text"`   // the line, or "" if it is longer than 1,000 bytes
	// Same counts the equal diagnostics at later places of the file. It is set on the first of the equal diagnostics.
	Same int `json:"same,omitempty"`
	// Operation is set if the finding is about the arguments of an operation.
	Operation string `json:"operation,omitempty"`
}

// Topic returns the argument for `writ explain`: the operation whose arguments are wrong, or else the code.
func (d Diagnostic) Topic() string { return cmp.Or(d.Operation, d.Code) }

// MaxLine limits the length of the lines that diagnostics show, in bytes.
const MaxLine = 1_000

// Position returns "file:line:column".
func (d Diagnostic) Position() string { return fmt.Sprintf("%s:%d:%d", d.File, d.Line, d.Column) }

// String formats the diagnostic for a terminal, without colours: message, place, line and marked span.
func (d Diagnostic) String() string {
	if d.Text == "" {
		return strings.TrimRight(fmt.Sprintf("%s[%s]: %s\n--> %s  %s", d.Severity, d.Code, d.Message, d.Position(), d.Help),
			" ") + "\n"
	}
	margin := strings.Repeat(" ", len(strconv.Itoa(d.Line)))
	return fmt.Sprintf("%s[%s]: %s\n%s--> %s\n%s |\n%s\n", d.Severity, d.Code, d.Message, margin, d.Position(), margin,
		d.Excerpt())
}

// Excerpt returns the source line, and below it carets and the help.
func (d Diagnostic) Excerpt() string {
	number := strconv.Itoa(d.Line)
	margin := strings.Repeat(" ", len(number))
	at := min(max(d.Column-1, 0), len(d.Text))
	to := min(at+d.Width, len(d.Text))
	indent := utf8.RuneCountInString(untab(d.Text[:at]))
	carets := strings.Repeat("^", max(1, utf8.RuneCountInString(untab(d.Text[at:to]))))
	mark := fmt.Sprintf("%s | %s%s %s", margin, strings.Repeat(" ", indent), carets, d.Help)
	return fmt.Sprintf("%s | %s\n%s", number, untab(d.Text), strings.TrimRight(mark, " "))
}

func untab(s string) string { return strings.ReplaceAll(s, "\t", "  ") }

// equals reports whether two diagnostics differ only in their places.
func (d Diagnostic) equals(other Diagnostic) bool { return d.kind() == other.kind() }

// kind returns a diagnostic without its place.
func (d Diagnostic) kind() Diagnostic {
	return Diagnostic{
		Code: d.Code, Severity: d.Severity, Message: d.Message, Help: d.Help, File: d.File, Operation: d.Operation,
	}
}

// Suggest sets the help to a suggestion, unless it is empty.
func (d *Diagnostic) Suggest(suggestion string) {
	if suggestion != "" {
		d.Help = fmt.Sprintf("did you mean %q?", suggestion)
	}
}

// SetHelp sets the help.
func (d *Diagnostic) SetHelp(text string) { d.Help = text }

// Illustrate adds the source line. Only diagnostics that are shown get a line, because a long line may have a
// diagnostic every few bytes.
func (d *Diagnostic) Illustrate(line string) {
	d.Width = max(1, min(d.Width, len(line)-d.Column+1))
	if len(line) <= MaxLine {
		d.Text = line
	}
}

// LineAt returns the line that contains offset, without its end. Characters that would act on a terminal become "?".
// All other bytes keep their offsets.
func LineAt(text []byte, offset int) string {
	offset = min(offset, len(text))
	begin := bytes.LastIndexByte(text[:offset], '\n') + 1
	end := len(text)
	if i := bytes.IndexByte(text[begin:], '\n'); i >= 0 {
		end = begin + i
	}
	line := bytes.TrimSuffix(text[begin:end], []byte("\r"))
	clean := make([]byte, 0, len(line))
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if r == utf8.RuneError || unicode.IsControl(r) && r != '\t' || hidden.Is(r) {
			clean = append(clean, bytes.Repeat([]byte{'?'}, size)...)
		} else {
			clean = append(clean, line[:size]...)
		}
		line = line[size:]
	}
	return string(clean)
}
