package author

import (
	"strings"
	"testing"

	"writ/scripts"
	"writ/scripts/scripttest"
)

func TestFailedTestShowsItsLine(t *testing.T) {
	t.Parallel()
	file := testedFile{Bundle: scripts.Bundle{Main: scripts.Source{Name: "web.tengo", Text: []byte("a := 1\na.b.c = \x1b2\n")}}}
	notes := []scripttest.Note{{Failure: true, Text: "no", Position: "web.tengo:2:1"}}
	if got := file.notesText(notes, ""); !strings.Contains(got, "2 | a.b.c") {
		t.Errorf("a failed test lacks the line: %s", got)
	}
}
