package terminal

import (
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
)

type tableRow struct{ id, name, minor, command string }

func tableColumns() []Column[tableRow] {
	return []Column[tableRow]{
		{Title: "ID", ID: true, Cell: func(r tableRow) string { return r.id }},
		{Title: "NAME", Cell: func(r tableRow) string { return r.name }},
		{Title: "MINOR", Minor: 1, Cell: func(r tableRow) string { return r.minor }},
		{Title: "COMMAND", Whole: true, Cell: func(r tableRow) string { return r.command }},
	}
}

func TestTableFitsTheTerminal(t *testing.T) {
	long := strings.Repeat("n", 63)
	rows := []tableRow{
		{"abcdefghijklmnop", long, long, "writ release"},
		{"abcdefghijzzzzzz", strings.Repeat("名", 40), "", "writ hold"},
	}
	for _, tt := range []struct {
		width        int
		want, absent []string
	}{
		{200, []string{"abcdefghijk ", "abcdefghijz ", long, "MINOR", "writ release"}, []string{"abcdefghijkl"}},
		{80, []string{"MINOR", "writ release", "n…", "名…"}, []string{long}},
		{40, []string{"abcdefghijk", "NAME", "writ release"}, []string{"MINOR"}},
		{26, []string{"abcdefghijk", "NAME", "-o wide shows COMMAND"}, []string{"MINOR", "writ hold"}},
		{8, []string{"abcdefg…"}, []string{"NAME"}},
	} {
		text := fittedTable(rows, tableColumns(), tt.width)
		for line := range strings.Lines(text) {
			if w := lipgloss.Width(strings.TrimSuffix(line, "\n")); w > tt.width {
				t.Errorf("a line has %d of %d columns:\n%s", w, tt.width, text)
			}
		}
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%d columns lack %q:\n%s", tt.width, want, text)
			}
		}
		for _, absent := range tt.absent {
			if strings.Contains(text, absent) {
				t.Errorf("%d columns have %q:\n%s", tt.width, absent, text)
			}
		}
	}
}

func TestLongCommandHidesNoOtherColumn(t *testing.T) {
	rows := []tableRow{{"abcdefghijklmnop", "name", "minor", "writ release " + strings.Repeat("n", 60)}}
	text := fittedTable(rows, tableColumns(), 80)
	if want := "ID        NAME  MINOR\nabcdefgh  name  minor\n-o wide shows COMMAND\n"; text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
	if text := fittedTable(rows, tableColumns(), 120); strings.Contains(text, "wide") || !strings.Contains(text, "writ release n") {
		t.Errorf("in 120 columns:\n%s", text)
	}
}

func TestWordsToCopyWrap(t *testing.T) {
	columns := []Column[tableRow]{
		{Title: "NAME", Cell: func(r tableRow) string { return r.name }},
		{Title: "ADDRESS", Wraps: true, Cell: func(r tableRow) string { return r.command }},
		{Title: "MINOR", Minor: 1, Cell: func(r tableRow) string { return r.minor }},
		{Title: "DRIFT", Cell: func(r tableRow) string { return r.id }},
	}
	const long = "[2001:db8:0:1:2:3:4:5]:8080"
	rows := []tableRow{
		{"its volume is not as requested", "web", "minor-minor-minor", "192.0.2.10:8080 " + long}, {"", "db", "", ""},
	}
	for width, want := range map[int]string{
		120: "NAME  ADDRESS                                      MINOR              DRIFT\n" +
			"web   192.0.2.10:8080 [2001:db8:0:1:2:3:4:5]:8080  minor-minor-minor  its volume is not as requested\n" +
			"db    -                                            -                  -\n",
		66: "NAME  ADDRESS                        MINOR           DRIFT\n" +
			"web   192.0.2.10:8080                minor-minor-m…  its volume i…\n" +
			"      [2001:db8:0:1:2:3:4:5]:8080\n" +
			"db    -                              -               -\n",
		47: "NAME  ADDRESS                      DRIFT\n" +
			"web   192.0.2.10:8080              its volume …\n" +
			"      [2001:db8:0:1:2:3:4:5]:8080\n" +
			"db    -                            -\n",
		45: "NAME  ADDRESS                    DRIFT\n" +
			"web   192.0.2.10:8080            its volume …\n" +
			"      [2001:db8:0:1:2:3:4:5]:80\n      80\n" +
			"db    -                          -\n",
	} {
		if got := fittedTable(rows, columns, width); got != want {
			t.Errorf("in %d columns:\n%swant\n%s", width, got, want)
		}
	}
}

func TestWideCharactersKeepColumnsAligned(t *testing.T) {
	text := table([]tableRow{{"a", "名前", "x", ""}, {"b", "name", "y", ""}}, tableColumns()[1:3], false)
	if want := "NAME  MINOR\n名前  x\nname  y\n"; text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}

// Only terminals limit the width of tables. Programs receive all data.
func TestOnlyTerminalsBoundTables(t *testing.T) {
	rows := []tableRow{{"abcdefghijklmnop", strings.Repeat("n", 63), strings.Repeat("m", 63), "writ release"}}
	for _, tt := range []struct {
		columns int
		format  Format
		whole   bool
	}{{80, Table, false}, {0, Table, true}, {80, Wide, true}, {80, CSV, true}} {
		term, out, _ := newTest(t)
		term.Columns, term.Format = tt.columns, tt.format
		if err := term.Print(List(rows, rows, func(r tableRow) string { return r.id }, tableColumns()...)); err != nil {
			t.Fatal(err)
		}
		text := out()
		if whole := strings.Contains(text, rows[0].id) && strings.Contains(text, rows[0].name); whole != tt.whole {
			t.Errorf("%d columns, %s: whole %v, want %v:\n%s", tt.columns, tt.format, whole, tt.whole, text)
		}
	}
}
