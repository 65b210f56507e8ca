package scripts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"writ/scripts/diagnostic"

	"github.com/d5/tengo/v2/parser"
)

// maxDiagnostics limits the diagnostics of a report. Further errors are counted.
const maxDiagnostics = 100

// findings collects the diagnostics of a bundle.
type findings struct {
	units []*unit
	list  []diagnostic.Diagnostic
}

// add adds a diagnostic for width bytes of the source from pos.
func (f *findings) add(code string, pos parser.Pos, width int, format string, args ...any) *diagnostic.Diagnostic {
	d := diagnostic.Diagnostic{Code: code, Message: printable(fmt.Sprintf(format, args...)), Width: max(width, 1)}
	if info, ok := diagnostic.Lookup(code); ok {
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
func (f *findings) at(code string, n parser.Node, format string, args ...any) *diagnostic.Diagnostic {
	pos := n.Pos()
	if u, ok := n.(*parser.UnaryExpr); ok {
		pos = u.TokenPos // Pos returns the position of the operand
	}
	return f.add(code, pos, int(n.End()-pos), format, args...)
}

// sorted returns at most maxDiagnostics diagnostics, ordered by file and place, and the number of omitted errors. It
// drops duplicates at one place, and prefers the first diagnostic of each kind.
func (f *findings) sorted() (list []diagnostic.Diagnostic, more int) {
	order := make(map[string]int, len(f.units))
	for i, u := range f.units {
		order[printable(u.source.Name)] = i
	}
	byPlace := func(a, b diagnostic.Diagnostic) int {
		return cmp.Or(order[a.File]-order[b.File], a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Code, b.Code))
	}
	slices.SortStableFunc(f.list, byPlace)
	f.list = slices.Compact(f.list)
	list, rest := diagnostic.FirstOfEachKind(f.list)
	room := min(max(maxDiagnostics-len(list), 0), len(rest))
	for _, d := range slices.Concat(list[min(len(list), maxDiagnostics):], rest[room:]) {
		if d.Severity == diagnostic.SeverityError {
			more++
		}
	}
	list = append(list[:min(len(list), maxDiagnostics)], rest[:room]...)
	slices.SortStableFunc(list, byPlace)
	for i := range list {
		if u := f.units[order[list[i].File]]; list[i].Line > 0 && list[i].Text == "" {
			list[i].Illustrate(diagnostic.LineAt(u.source.Text, u.file.Lines[list[i].Line-1]))
		}
	}
	return list, more
}

// crowded reports whether the report is already full. Further diagnostics then need no suggestions, which take time to
// compute.
func (f *findings) crowded() bool { return len(f.list) > maxDiagnostics }

// err returns the error of a report of all findings.
func (f *findings) err() error {
	list, more := f.sorted()
	return diagnostic.Invalid(list, more)
}

// failed reports whether an error was found.
func (f *findings) failed() bool {
	return diagnostic.Errors(f.list) > 0
}
