package syntax

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/d5/tengo/v2/parser"

	"writ/scripts"
	"writ/scripts/diagnostic"
)

// maxDiagnostics limits the diagnostics of a report. Further errors are counted.
const maxDiagnostics = 100

// Findings collects the diagnostics of a bundle.
type Findings struct {
	Units []*Unit
	List  []diagnostic.Diagnostic
}

// Add adds a diagnostic for width bytes of the source from pos.
func (f *Findings) Add(code string, pos parser.Pos, width int, format string, args ...any) *diagnostic.Diagnostic {
	d := diagnostic.Diagnostic{Code: code, Message: scripts.Printable(fmt.Sprintf(format, args...)), Width: max(width, 1)}
	if info, ok := diagnostic.Lookup(code); ok {
		d.Severity = info.Severity
	}
	for _, u := range f.Units {
		if int(pos) < u.File.Base || int(pos) > u.File.Base+u.File.Size {
			continue
		}
		at := u.File.Position(pos)
		d.File, d.Line, d.Column = scripts.Printable(u.Source.Name), at.Line, at.Column
	}
	f.List = append(f.List, d)
	return &f.List[len(f.List)-1]
}

// At adds a diagnostic for a node.
func (f *Findings) At(code string, n parser.Node, format string, args ...any) *diagnostic.Diagnostic {
	pos := n.Pos()
	if u, ok := n.(*parser.UnaryExpr); ok {
		pos = u.TokenPos // Pos returns the position of the operand
	}
	return f.Add(code, pos, int(n.End()-pos), format, args...)
}

// Sorted returns at most maxDiagnostics diagnostics, ordered by file and place, and the number of omitted errors. It
// drops duplicates at one place, and prefers the first diagnostic of each kind.
func (f *Findings) Sorted() (list []diagnostic.Diagnostic, more int) {
	order := make(map[string]int, len(f.Units))
	for i, u := range f.Units {
		order[scripts.Printable(u.Source.Name)] = i
	}
	byPlace := func(a, b diagnostic.Diagnostic) int {
		return cmp.Or(order[a.File]-order[b.File], a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Code, b.Code))
	}
	slices.SortStableFunc(f.List, byPlace)
	f.List = slices.Compact(f.List)
	list, rest := diagnostic.FirstOfEachKind(f.List)
	room := min(max(maxDiagnostics-len(list), 0), len(rest))
	for _, d := range slices.Concat(list[min(len(list), maxDiagnostics):], rest[room:]) {
		if d.Severity == diagnostic.SeverityError {
			more++
		}
	}
	list = append(list[:min(len(list), maxDiagnostics)], rest[:room]...)
	slices.SortStableFunc(list, byPlace)
	for i := range list {
		if u := f.Units[order[list[i].File]]; list[i].Line > 0 && list[i].Text == "" {
			list[i].Illustrate(diagnostic.LineAt(u.Source.Text, u.File.Lines[list[i].Line-1]))
		}
	}
	return list, more
}

// Crowded reports whether the report is already full. Further diagnostics then need no suggestions, which take time to
// compute.
func (f *Findings) Crowded() bool { return len(f.List) > maxDiagnostics }

// Err returns SCRIPT_INVALID if a finding is an error, otherwise nil.
func (f *Findings) Err() error {
	list, more := f.Sorted()
	return diagnostic.Invalid(list, more)
}

// Failed reports whether an error was found.
func (f *Findings) Failed() bool {
	return diagnostic.Errors(f.List) > 0
}
