package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"writ"
	"writ/identity"
	"writ/internal/hidden"
	"writ/ledger"
)

// Bounds of what a page shows of a signed text. A text may have half a megabyte, and a page has at most 100 KB.
const (
	sourceLines = 300 // of all files together, above which only those around marks are shown
	sourceBytes = 20 << 10
	aroundMark  = 12
	lineRunes   = 240
	maxMarks    = 10
	markedCalls = 50
	valueRunes  = 1000
	maxParams   = 60
)

// textsKept is how many signed texts are remembered: they never change, and a page that is kept up to date would read one every second.
const textsKept = 16

// texts are signed texts that pages have shown last, by their digest.
type texts struct {
	mu   sync.Mutex
	kept map[writ.Digest]*signedText
}

// signedText is what was signed for a run, and by which certificate, nil if a plain key signed it or if that cannot be known.
type signedText struct {
	*identity.Payload
	certificate *identity.Certificate
}

// signedText returns what was signed for a run, nil if the ledger does not have it: that of a refused submission is forgotten. The caller has
// made sure that the reader may see the run.
func (d *Dashboard) signedText(ctx context.Context, run ledger.Run) (*signedText, error) {
	d.texts.mu.Lock()
	known := d.texts.kept[run.Payload]
	d.texts.mu.Unlock()
	if known != nil {
		return known, nil
	}
	signed, err := d.Ledger.Signed(ctx, run.Payload)
	if writ.CodeOf(err) == writ.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	read, err := identity.ReadSubmission(signed)
	if err != nil || read.Payload == nil || read.Digest != run.Payload {
		return nil, nil // it is not what the run was made of, so there is nothing to show
	}
	text := &signedText{Payload: read.Payload}
	if !text.Certificate.IsZero() {
		if text.certificate, err = d.LiveView.Certificate(ctx, signed); err != nil {
			return text, nil // the next look may know it
		}
	}
	d.texts.mu.Lock()
	defer d.texts.mu.Unlock()
	if d.texts.kept == nil || len(d.texts.kept) >= textsKept {
		d.texts.kept = map[writ.Digest]*signedText{}
	}
	d.texts.kept[run.Payload] = text
	return text, nil
}

// value is a named value as people read it.
type value struct{ Name, Text string }

// valuesOf lists values by their names, as JSON. Long ones are cut.
func valuesOf(all map[string]any) []value {
	list := make([]value, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, value{hidden.Escape(name), jsonText(all[name])})
	}
	return list
}

// jsonText writes a value in one line.
func jsonText(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the page escapes it
	if err := e.Encode(v); err != nil {
		return "cannot be shown: " + err.Error()
	}
	return cut(strings.TrimSpace(b.String()), valueRunes)
}

// cut shortens a text to at most max characters, and says so. Characters that are not seen are written out.
func cut(text string, max int) string {
	text = hidden.Escape(text)
	if len(text) <= max {
		return text
	}
	if runes := []rune(text); len(runes) > max {
		return fmt.Sprintf("%s … (%d more)", string(runes[:max]), len(runes)-max)
	}
	return text
}

// mark is what happens at a line of a script.
type mark struct {
	Kind string // "failed", "called", or the state of a call
	Text string
	Call int // its number, 0 for none
}

// fileLine is a line of a file.
type fileLine struct {
	file string
	line int
}

// parsePosition parses a position like "web.tengo:14:11".
func parsePosition(position string) (fileLine, bool) {
	rest, _, _ := cutLast(position)
	file, text, ok := cutLast(rest)
	line, err := strconv.Atoi(text)
	return fileLine{file, line}, ok && err == nil && line > 0
}

func cutLast(text string) (before, after string, ok bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

// marksOf says which lines a run is at: where it failed, and from where that was called, or what its open calls do.
func marksOf(run ledger.Run, open []writ.Call) map[fileLine][]mark {
	marks := map[fileLine][]mark{}
	put := func(position string, m mark) {
		if m.Call > maxCalls { // it stands on another page
			m.Call = 0
		}
		if p, ok := parsePosition(position); ok {
			marks[p] = append(marks[p], m)
		}
	}
	if f := run.Failure; f != nil {
		put(f.Position, mark{"failed", "failed here", f.Seq})
		for _, position := range f.Trace {
			put(position, mark{Kind: "called", Text: "called from here"})
		}
	}
	for _, c := range open {
		put(c.Position, mark{string(c.State), fmt.Sprintf("call %d is %s", c.Seq, c.State), c.Seq})
	}
	return marks
}

// sourceRow is a line of a script, the name of a file, or a gap.
type sourceRow struct {
	key   string
	File  string // the name of the file that begins
	Left  int    // how many lines a gap leaves out
	Line  int
	Text  string
	Marks []mark
	More  int // marks that are left out
	ID    string
}

// Key tells the row from the others.
func (s sourceRow) Key() string { return s.key }

// Kind is that of the mark that matters most.
func (s sourceRow) Kind() string {
	for _, kind := range []string{"failed", "unknown", "running", "queued", "planned", "called"} {
		if slices.ContainsFunc(s.Marks, func(m mark) bool { return m.Kind == kind }) {
			return kind
		}
	}
	return ""
}

// sourceRows are the lines of a script and its modules. Of a long text only those around marks are there, or its beginning if there are no marks.
func sourceRows(p *identity.Payload, marks map[fileLine][]mark) (rows []sourceRow) {
	files := append([]identity.File{p.Script}, p.Modules...)
	lines, bytes := 0, 0
	for _, f := range files {
		lines += strings.Count(string(f.Text), "\n")
		bytes += len(f.Text)
	}
	long := lines > sourceLines || bytes > sourceBytes
	for i, f := range files {
		rows = append(rows, fileRows(i, f, marks, long)...)
	}
	return rows
}

func fileRows(number int, f identity.File, marks map[fileLine][]mark, long bool) []sourceRow {
	text := strings.Split(strings.TrimSuffix(string(f.Text), "\n"), "\n")
	show := shownLines(f.Name, len(text), number, marks, long)
	rows := []sourceRow{{key: fmt.Sprintf("file-%d", number), File: f.Name}}
	left := 0
	for i, t := range text {
		if !show[i] {
			left++
			continue
		}
		rows = appendGap(rows, number, i, left)
		left = 0
		row := sourceRow{key: fmt.Sprintf("%d-%d", number, i+1), Line: i + 1, Text: cut(t, lineRunes), Marks: marks[fileLine{f.Name, i + 1}], ID: lineID(number, i+1)}
		if n := len(row.Marks); n > 3 {
			row.Marks, row.More = row.Marks[:3], n-3
		}
		rows = append(rows, row)
	}
	return appendGap(rows, number, len(text), left)
}

func appendGap(rows []sourceRow, number, at, left int) []sourceRow {
	if left == 0 {
		return rows
	}
	return append(rows, sourceRow{key: fmt.Sprintf("gap-%d-%d", number, at), Left: left})
}

func lineID(file, line int) string { return fmt.Sprintf("line-%d-%d", file, line) }

// shownLines says which lines of a file are shown.
func shownLines(name string, n, number int, marks map[fileLine][]mark, long bool) []bool {
	show := make([]bool, n)
	around := func(line, by int) {
		for i := max(line-1-by, 0); i < min(line+by, n); i++ {
			show[i] = true
		}
	}
	if !long {
		around(1, n)
		return show
	}
	var at []int
	for p := range marks {
		if p.file == name {
			at = append(at, p.line)
		}
	}
	slices.Sort(at)
	for _, line := range at[:min(len(at), maxMarks)] {
		around(line, aroundMark)
	}
	if len(marks) == 0 && number == 0 {
		around(1, 3*aroundMark)
	}
	return show
}

// signedFacts is what the text says that was signed, besides the script.
type signedFacts struct {
	Known   bool // the ledger has the text
	Params  []value
	Left    int // parameters that are left out
	Allow   string
	Targets string
	Secrets string
	Calls   int
	// Certificate says which one signed, "" if a plain key did.
	Certificate string
}

// Key of the only piece of its part.
func (signedFacts) Key() string { return "signed" }

func signedFactsOf(p *signedText) signedFacts {
	if p == nil {
		return signedFacts{}
	}
	f := signedFacts{Known: true, Params: valuesOf(p.Params), Allow: words(p.Allow), Targets: words(p.Targets), Secrets: words(p.Secrets), Calls: p.MaxCalls}
	if p.certificate != nil {
		f.Certificate = cut(p.certificate.String(), valueRunes)
	}
	if p.Destructive {
		f.Targets = "everything (format v1)"
	}
	if n := len(f.Params); n > maxParams {
		f.Params, f.Left = f.Params[:maxParams], n-maxParams
	}
	return f
}

func words(all []string) string { return cut(strings.Join(all, ", "), valueRunes) }

// lineOf returns the id of the line at which a run failed, "" if the page does not show it.
func (d *Dashboard) lineOf(ctx context.Context, run ledger.Run) string {
	at, ok := parsePosition(run.Failure.Position)
	text, err := d.signedText(ctx, run)
	if !ok || err != nil || text == nil {
		return ""
	}
	for i, f := range append([]identity.File{text.Script}, text.Modules...) {
		if f.Name == at.file {
			return lineID(i, at.line)
		}
	}
	return ""
}

// addSource adds what was signed, and the script with the lines at which the run is.
func (d *Dashboard) addSource(ctx context.Context, p *page, now *moment, run ledger.Run) error {
	text, err := d.signedText(ctx, run)
	if err != nil {
		return err
	}
	add(p, part{id: "signed", ofLedger: true}, signedFactsOf(text))
	var rows []sourceRow
	if text != nil {
		open, err := d.Ledger.OpenCalls(ctx, markedCalls, run.ID)
		if err != nil {
			return err
		}
		for i, c := range open[run.ID] {
			if _, is := now.unheardNode(run.Datacenter, c.Node); is && c.State == writ.CallRunning {
				open[run.ID][i].State = stateUnknown
			}
		}
		rows = sourceRows(text.Payload, marksOf(run, open[run.ID]))
	}
	add(p, part{id: "source", ofLedger: true}, rows...)
	return nil
}
