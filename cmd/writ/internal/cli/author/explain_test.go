package author

import (
	"strings"
	"testing"

	"charm.land/lipgloss/v2"

	"writ/cmd/writ/internal/terminal"
	"writ/sal/catalog"
)

func TestExplanationsFitTheTerminal(t *testing.T) {
	const width = 80
	views := map[string]terminal.View{}
	for _, op := range catalog.Operations() {
		views[op.Name()] = explainOperation(op).view(width)
	}
	for _, code := range codeNames() {
		e, _ := explainCode(code)
		views[code] = e.view(width)
	}
	for name, v := range views {
		text, _, _ := strings.Cut(v.Text(false), "\nExample:\n")
		text, _, _ = strings.Cut(text, "\nWrong:\n")
		for line := range strings.SplitSeq(text, "\n") {
			if lipgloss.Width(line) > width {
				t.Errorf("%s: %d columns: %s", name, lipgloss.Width(line), line)
			}
		}
	}
}
