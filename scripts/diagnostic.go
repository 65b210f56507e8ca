package scripts

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/d5/tengo/v2/parser"

	"writ"
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
	Width    int      `json:"width"`  // of the span, in bytes; it stays on its line
	Text     string   `json:"text"`   // the line, or "" if it is longer than 1,000 bytes
	// Same counts the equal diagnostics at later places of the file. It is set on the first of them.
	Same int `json:"same,omitempty"`
	// Operation is set if the finding is about the arguments of an operation.
	Operation string `json:"operation,omitempty"`
}

// Topic returns the argument for `writ explain`: the operation whose arguments are wrong, or else the code.
func (d Diagnostic) Topic() string { return cmp.Or(d.Operation, d.Code) }

const (
	maxLine        = 1_000
	maxDiagnostics = 100 // of a report; further errors are counted
)

// Position returns "file:line:column".
func (d Diagnostic) Position() string { return fmt.Sprintf("%s:%d:%d", d.File, d.Line, d.Column) }

// String formats the diagnostic for a terminal, without colours: message, place, line and marked span.
func (d Diagnostic) String() string {
	if d.Text == "" {
		return strings.TrimRight(fmt.Sprintf("%s[%s]: %s\n--> %s  %s", d.Severity, d.Code, d.Message, d.Position(), d.Help), " ") + "\n"
	}
	margin := strings.Repeat(" ", len(strconv.Itoa(d.Line)))
	return fmt.Sprintf("%s[%s]: %s\n%s--> %s\n%s |\n%s\n", d.Severity, d.Code, d.Message, margin, d.Position(), margin, d.excerpt())
}

// excerpt returns the source line, and below it carets and the help.
func (d Diagnostic) excerpt() string {
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

// Report is the result of a check. It is derived from the text alone, without running it.
type Report struct {
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"` // by file and place, the first 100
	More        int          `json:"more,omitempty"`        // errors beyond these
	Params      Params       `json:"params,omitempty"`
	// Every operation in the text, sorted: the `allow` list of the script.
	Operations  []string `json:"operations,omitempty"`
	Destructive bool     `json:"destructive,omitempty"` // one of them deletes or overwrites data
	// Targets are the resources of these operations as far as the text names them, sorted: "volume/web-0", or
	// "volume/web-*" if the rest of the name is known only in the run. MoreTargets reports further targets that the
	// text does not name.
	Targets     []string  `json:"targets,omitempty"`
	MoreTargets bool      `json:"more_targets,omitempty"`
	Secrets     []string  `json:"secrets,omitempty"`  // the names of all literal secrets, sorted
	Timeouts    []Timeout `json:"timeouts,omitempty"` // of calls, where they are literals
	Modules     []string  `json:"modules,omitempty"`  // modules of the bundle that the script needs, sorted
	Tests       []Test    `json:"tests,omitempty"`    // of a test file, in its order
}

// Timeout is a literal timeout option of a call.
type Timeout struct {
	Operation string `json:"operation"`
	Position  string `json:"position"` // of the options: "web.tengo:14:11"
	Millis    int64  `json:"milliseconds"`
}

// String returns the call with its timeout: "machine.create at web.tengo:14:11 has the timeout 2h".
func (t Timeout) String() string {
	return fmt.Sprintf("%s at %s has the timeout %s", t.Operation, t.Position, shortest(t.Duration()))
}

// Duration returns the timeout as a duration.
func (t Timeout) Duration() time.Duration { return time.Duration(t.Millis) * time.Millisecond }

// shortest formats a duration without zero parts: "2h" instead of "2h0m0s".
func shortest(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// OK reports whether the script has no errors.
func (r Report) OK() bool { return r.Errors() == 0 }

// Errors counts the diagnostics that are errors.
func (r Report) Errors() int {
	n := r.More
	for _, d := range r.Diagnostics {
		if d.Severity == SeverityError {
			n++
		}
	}
	return n
}

// Err returns nil if the script is OK. Otherwise it returns SCRIPT_INVALID with the first error and the number of
// others.
func (r Report) Err() error {
	n := r.Errors()
	if n == 0 {
		return nil
	}
	first := r.Diagnostics[max(0, slices.IndexFunc(r.Diagnostics, func(d Diagnostic) bool { return d.Severity == SeverityError }))]
	more := ""
	if n > 1 {
		more = fmt.Sprintf(" (and %d more)", n-1)
	}
	return writ.Errorf(writ.CodeScriptInvalid, "%s: %s%s", first.Position(), first.Message, more).
		WithHint("`writ check %s` shows everything; `writ explain %s` tells more", first.File, first.Topic())
}

// String formats the diagnostics for a terminal. Diagnostics that differ only in their places are shown once.
func (r Report) String() string {
	var texts []string
	unseen := r.More // errors that the text neither shows nor counts
	for i, d := range r.Diagnostics {
		if slices.ContainsFunc(r.Diagnostics[:i], d.equals) {
			unseen++
			continue
		}
		if d.Severity == SeverityError {
			unseen -= d.Same
		} else {
			unseen -= r.repeats(i)
		}
		text := d.String()
		if d.Same > 0 {
			text += r.others(i)
		}
		texts = append(texts, text)
	}
	if unseen > 0 {
		texts = append(texts, fmt.Sprintf("and %d more errors\n", unseen))
	}
	return strings.Join(texts, "\n")
}

// repeats counts the later diagnostics of the report that equal the i-th one except for the place.
func (r Report) repeats(i int) (n int) {
	for _, other := range r.Diagnostics[i+1:] {
		if other.equals(r.Diagnostics[i]) {
			n++
		}
	}
	return n
}

// others lists the other places of the i-th diagnostic.
func (r Report) others(i int) string {
	const most = 5
	d, lines := r.Diagnostics[i], []string{}
	for _, other := range r.Diagnostics[i+1:] {
		if line := strconv.Itoa(other.Line); other.equals(d) && len(lines) < most && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	text := fmt.Sprintf("%s = the same at %d more places", strings.Repeat(" ", len(strconv.Itoa(d.Line))), d.Same)
	if d.Same == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	if len(lines) > 0 {
		text += ": line " + strings.Join(lines, ", ")
	}
	if d.Same > len(lines) {
		text += ", …"
	}
	return text + "\n"
}

// equals reports whether two diagnostics differ only in their places.
func (d Diagnostic) equals(other Diagnostic) bool { return d.kind() == other.kind() }

// kind returns a diagnostic without its place.
func (d Diagnostic) kind() Diagnostic {
	return Diagnostic{Code: d.Code, Severity: d.Severity, Message: d.Message, Help: d.Help, File: d.File, Operation: d.Operation}
}

// findings collects the diagnostics of a bundle.
type findings struct {
	units []*unit
	list  []Diagnostic
}

// add adds a diagnostic for width bytes of the source from pos.
func (f *findings) add(code string, pos parser.Pos, width int, format string, args ...any) *Diagnostic {
	d := Diagnostic{Code: code, Message: printable(fmt.Sprintf(format, args...)), Width: max(width, 1)}
	if info, ok := LookupCode(code); ok {
		d.Severity = info.Severity
	}
	for _, u := range f.units {
		if int(pos) < u.file.Base || int(pos) > u.file.Base+u.file.Size {
			continue
		}
		at := u.file.Position(pos)
		d.File, d.Line, d.Column = printable(u.source.Name), at.Line, at.Column
	}
	f.list = append(f.list, d)
	return &f.list[len(f.list)-1]
}

// at adds a diagnostic for a node.
func (f *findings) at(code string, n parser.Node, format string, args ...any) *Diagnostic {
	pos := n.Pos()
	if u, ok := n.(*parser.UnaryExpr); ok {
		pos = u.TokenPos // Pos returns the position of the operand
	}
	return f.add(code, pos, int(n.End()-pos), format, args...)
}

// meant sets the help to a suggestion, unless it is empty.
func (d *Diagnostic) meant(suggestion string) {
	if suggestion != "" {
		d.Help = fmt.Sprintf("did you mean %q?", suggestion)
	}
}

// helps sets the help.
func (d *Diagnostic) helps(text string) { d.Help = text }

// sorted returns at most maxDiagnostics diagnostics, ordered by file and place, and the number of omitted errors. It
// drops duplicates at one place, and prefers the first diagnostic of each kind.
func (f *findings) sorted() (list []Diagnostic, more int) {
	order := make(map[string]int, len(f.units))
	for i, u := range f.units {
		order[printable(u.source.Name)] = i
	}
	byPlace := func(a, b Diagnostic) int {
		return cmp.Or(order[a.File]-order[b.File], a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Code, b.Code))
	}
	slices.SortStableFunc(f.list, byPlace)
	f.list = slices.Compact(f.list)
	list, rest := firstOfEachKind(f.list)
	room := min(max(maxDiagnostics-len(list), 0), len(rest))
	for _, d := range slices.Concat(list[min(len(list), maxDiagnostics):], rest[room:]) {
		if d.Severity == SeverityError {
			more++
		}
	}
	list = append(list[:min(len(list), maxDiagnostics)], rest[:room]...)
	slices.SortStableFunc(list, byPlace)
	for i := range list {
		if u := f.units[order[list[i].File]]; list[i].Line > 0 && list[i].Text == "" {
			list[i].illustrate(u)
		}
	}
	return list, more
}

// firstOfEachKind splits diagnostics into the first of each kind, with Same set, and the rest.
func firstOfEachKind(all []Diagnostic) (first, rest []Diagnostic) {
	index := make(map[Diagnostic]int)
	for _, d := range all {
		i, found := index[d.kind()]
		if found {
			first[i].Same++
			rest = append(rest, d)
			continue
		}
		index[d.kind()] = len(first)
		first = append(first, d)
	}
	return first, rest
}

// illustrate adds the source line. Only shown diagnostics get one, because a long line may have a diagnostic every few
// bytes.
func (d *Diagnostic) illustrate(u *unit) {
	line := lineAt(u.source.Text, u.file.Lines[d.Line-1])
	d.Width = max(1, min(d.Width, len(line)-d.Column+1))
	if len(line) <= maxLine {
		d.Text = line
	}
}

// crowded reports whether the report is already full. Further diagnostics then need no suggestions, which take time to
// compute.
func (f *findings) crowded() bool { return len(f.list) > maxDiagnostics }

// err returns the error of a report of all findings.
func (f *findings) err() error {
	list, more := f.sorted()
	return Report{Diagnostics: list, More: more}.Err()
}

func (f *findings) failed() bool {
	return slices.ContainsFunc(f.list, func(d Diagnostic) bool { return d.Severity == SeverityError })
}

// lineAt returns the line that contains offset, without its end. Characters that would act on a terminal become "?".
// All other bytes keep their offsets.
func lineAt(text []byte, offset int) string {
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
