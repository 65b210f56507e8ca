package why

import (
	"strings"

	"writ"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
	"writ/scripts"
)

// TraceLines returns the lines about the positions that led to a failure: "needed at web.tengo:27:18" for the place that
// needed a failed call, and "called from web.tengo:30:1" for each caller.
func TraceLines(f *writ.Failure) (lines []string) {
	for i, at := range f.Trace {
		by := "called from "
		if i == 0 && f.Seq > 0 {
			by = "needed at "
		}
		lines = append(lines, by+at)
	}
	return lines
}

// WhereFailed returns the lines of a message that show where a script failed: its position, and the line of the source
// if the bundle has it.
func WhereFailed(f *writ.Failure, bundle scripts.Bundle) string {
	if f.Position == "" {
		return ""
	}
	text := "\n  at " + f.Position
	if excerpt := bundle.Excerpt(f.Position); excerpt != "" {
		text += "\n    " + strings.ReplaceAll(terminal.CleanLines(excerpt), "\n", "\n    ")
	}
	return text
}

// BundleOf returns the sources that were signed. They are empty if the payload is nil.
func BundleOf(payload *identity.Payload) (b scripts.Bundle) {
	if payload == nil {
		return b
	}
	b.Main = scripts.Source{Name: payload.Script.Name, Text: payload.Script.Text}
	for _, m := range payload.Modules {
		b.Modules = append(b.Modules, scripts.Source{Name: m.Name, Text: m.Text})
	}
	return b
}
