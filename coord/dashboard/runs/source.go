package runs

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
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/coord/dashboard/widget"
	"writ/identity"
	"writ/internal/hidden"
	"writ/ledger"
)

// Limits of the shown part of a signed text. A text may have half a megabyte, and a page has at most 100 KB.
const (
	sourceLines = 300 // of all files together; a longer text is shown around its marks only
	sourceBytes = 20 << 10
	aroundMark  = 12
	lineRunes   = 240
	maxMarks    = 10
	markedCalls = 50
	maxParams   = 60
)

// textsKept is the number of cached signed texts, which never change. Without the cache, a live page would read its
// text from the ledger every second.
const textsKept = 16

// texts caches the signed texts of recent pages by digest.
type texts struct {
	mu   sync.Mutex
	kept map[writ.Digest]*signedText
}

// signedText is the signed text of a run and the certificate that signed it. The certificate is nil if it is unknown or
// if a plain key signed the text.
type signedText struct {
	*identity.Payload
	certificate *identity.Certificate
}

// signedText returns the signed text of a run, nil if the ledger does not have it: the text of a refused submission is
// pruned. The caller has checked that the reader may read the run.
func (d *RunPages) signedText(ctx context.Context, run ledger.Run) (*signedText, error) {
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
		return nil, nil // not the text of this run, so nothing is shown
	}
	text := &signedText{Payload: read.Payload}
	if !text.Certificate.IsZero() {
		if text.certificate, err = d.LiveView.Certificate(ctx, signed); err != nil {
			return text, nil // not cached: a later request may find the certificate
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

// valuesOf lists values by name, as JSON. Long values are cut.
func valuesOf(all map[string]any) []widget.Named {
	list := make([]widget.Named, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, widget.Named{Name: hidden.Escape(name), Text: jsonText(all[name])})
	}
	return list
}

// jsonText formats a value in one line.
func jsonText(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the page escapes it
	if err := e.Encode(v); err != nil {
		return "cannot be shown: " + err.Error()
	}
	return widget.Cut(strings.TrimSpace(b.String()), widget.MaxValue)
}

// mark is an event at a line of a script.
type mark struct {
	Kind string // "failed", "called", or the state of a call
	Text string
	Call int // number of the call, 0 for none
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

// marksOf returns the marks of a run: the line where it failed and its callers, or the lines of its open calls.
func marksOf(run ledger.Run, open []writ.Call) map[fileLine][]mark {
	marks := map[fileLine][]mark{}
	put := func(position string, m mark) {
		if m.Call > maxCalls { // the call is on another page
			m.Call = 0
		}
		if p, ok := parsePosition(position); ok {
			marks[p] = append(marks[p], m)
		}
	}
	if f := run.Failure; f != nil {
		put(f.Position, mark{"failed", "failed here", f.Seq})
		for i, position := range f.Trace {
			text := "called from here"
			if i == 0 && f.Seq > 0 {
				text = "needed here"
			}
			put(position, mark{Kind: "called", Text: text})
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
	File  string // name of the file that starts here
	Left  int    // omitted lines of a gap
	Line  int
	Text  string
	Marks []mark
	More  int // omitted marks
	ID    string
}

// Key identifies the row.
func (s sourceRow) Key() string { return s.key }

// Kind returns the most important kind of its marks.
func (s sourceRow) Kind() string {
	for _, kind := range []string{"failed", "unknown", "running", "queued", "planned", "called"} {
		if slices.ContainsFunc(s.Marks, func(m mark) bool { return m.Kind == kind }) {
			return kind
		}
	}
	return ""
}

// sourceRows returns the lines of a script and its modules. A long text is shown around its marks only, or at its
// beginning if there are no marks.
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
		row := sourceRow{
			key: fmt.Sprintf("%d-%d", number, i+1), Line: i + 1, Text: widget.Cut(t, lineRunes),
			Marks: marks[fileLine{f.Name, i + 1}],
			ID:    lineID(number, i+1),
		}
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

// shownLines selects the lines of a file to show.
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

// signedFacts holds the facts of a signed text that the page shows beside the script.
type signedFacts struct {
	Known   bool // the ledger has the text
	Params  []widget.Named
	Left    int // omitted parameters
	Allow   string
	Targets string
	Secrets string
	Calls   int
	// Certificate describes the signing certificate, "" for a plain key.
	Certificate string
}

// Key is constant, because its part of the page has no other element.
func (signedFacts) Key() string { return "signed" }

func signedFactsOf(p *signedText) signedFacts {
	if p == nil {
		return signedFacts{}
	}
	f := signedFacts{
		Known: true, Params: valuesOf(p.Params), Allow: words(p.Allow), Targets: words(p.Targets), Secrets: words(p.Secrets),
		Calls: p.MaxCalls,
	}
	if p.certificate != nil {
		f.Certificate = widget.Cut(p.certificate.String(), widget.MaxValue)
	}
	if n := len(f.Params); n > maxParams {
		f.Params, f.Left = f.Params[:maxParams], n-maxParams
	}
	return f
}

func words(all []string) string { return widget.Cut(strings.Join(all, ", "), widget.MaxValue) }

// lineOf returns the id of the line where a run failed, "" if the page does not show it.
func (d *RunPages) lineOf(ctx context.Context, run ledger.Run) string {
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

// addSource adds the signed text, and the script with its marks.
func (d *RunPages) addSource(ctx context.Context, p *page.Page, now *snapshot.Snapshot, run ledger.Run) error {
	text, err := d.signedText(ctx, run)
	if err != nil {
		return err
	}
	page.Add(p, page.Part{ID: "signed", OfLedger: true}, signedFactsOf(text))
	var rows []sourceRow
	if text != nil {
		open, err := d.Ledger.OpenCalls(ctx, markedCalls, run.ID)
		if err != nil {
			return err
		}
		for i, c := range open[run.ID] {
			if _, is := now.UnheardNode(run.Datacenter, c.Node); is && c.State == writ.CallRunning {
				open[run.ID][i].State = snapshot.StateUnknown
			}
		}
		rows = sourceRows(text.Payload, marksOf(run, open[run.ID]))
	}
	page.Add(p, page.Part{ID: "source", OfLedger: true}, rows...)
	return nil
}
