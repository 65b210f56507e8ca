package header

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"writ"
	"writ/internal/lazyregexp"
)

// Writer writes the header lines of a signed text and keeps the first error. Only the writer validates values, because
// parsers re-encode the values that they read. The zero value is ready to use.
type Writer struct {
	b   bytes.Buffer
	err error
}

// Fail records an error for a line, unless there is an earlier one.
func (w *Writer) Fail(key, format string, args ...any) {
	if w.err == nil {
		w.err = Malformed(key+": "+format, args...)
	}
}

// Check records an error for a line unless ok.
func (w *Writer) Check(ok bool, key, format string, args ...any) {
	if !ok {
		w.Fail(key, format, args...)
	}
}

// Line writes "key: value". The value must be one line of visible text without spaces at its ends.
func (w *Writer) Line(key, value string) {
	most := MaxLine
	if key == "params" {
		most = MaxParams
	}
	switch {
	case value == "":
		w.Fail(key, "the value is missing")
	case len(key)+len(": ")+len(value) > most:
		if w.err == nil {
			w.err = writ.Errorf(writ.CodeTooLarge, "%s: the line has %d bytes, %d are allowed", key, len(value), most).
				WithHint("put large data into images or volumes")
		}
	case !utf8.ValidString(value):
		w.Fail(key, "not UTF-8")
	case strings.ContainsFunc(value, unicode.IsControl):
		w.Fail(key, "control characters are not allowed")
	case value[0] == ' ' || value[len(value)-1] == ' ':
		w.Fail(key, "starts or ends with a space")
	}
	w.b.WriteString(key)
	w.b.WriteString(": ")
	w.b.WriteString(value)
	w.b.WriteByte('\n')
}

// Lines writes a repeated line for each value, sorted.
func (w *Writer) Lines(key string, values []string) {
	for _, v := range w.Sorted(key, values) {
		w.Line(key, v)
	}
}

// Sorted returns the sorted values of a line. It records an error for a duplicate.
func (w *Writer) Sorted(key string, values []string) []string {
	values = slices.Sorted(slices.Values(values))
	for i := 1; i < len(values); i++ {
		w.Check(values[i-1] != values[i], key, "%q is a duplicate", Clip(values[i]))
	}
	return values
}

// Set writes words in one line, sorted, or "-" for an empty list. Each word must match pattern and occur once.
func (w *Writer) Set(key string, words []string, pattern *lazyregexp.Regexp) {
	words = slices.Sorted(slices.Values(words))
	for i, s := range words {
		w.Check(pattern.MatchString(s), key, "%q is not allowed here", s)
		w.Check(i == 0 || words[i-1] != s, key, "%q is a duplicate", s)
	}
	w.Line(key, OrDash(strings.Join(words, " ")))
}

// Number writes a number, which must be between 1 and `most`.
func (w *Writer) Number(key string, n, most int) {
	w.Check(n >= 1 && n <= most, key, "%d is not between 1 and %d", n, most)
	w.Line(key, strconv.Itoa(n))
}

// CheckTime records an error for a time before the year 2000 or after 9999.
func (w *Writer) CheckTime(key string, t time.Time) {
	y := t.UTC().Year()
	w.Check(y >= 2000 && y <= 9999, key, "%s is not a plausible time", t.UTC())
}

// Time writes a time.
func (w *Writer) Time(key string, t time.Time) {
	w.CheckTime(key, t)
	w.Line(key, FormatTime(t))
}

// Window writes the lines created and expires. The second time must be after the first, by at most `most`.
func (w *Writer) Window(created, expires time.Time, most time.Duration) {
	w.Time("created", created)
	w.Time("expires", expires)
	d := expires.Truncate(time.Second).Sub(created.Truncate(time.Second))
	w.Check(d > 0, "expires", "not after created")
	w.Check(d <= most, "expires", "more than %s after created", most)
}

// Params writes the line with parameters, as canonical JSON.
func (w *Writer) Params(params map[string]any) {
	text, err := canonicalJSON(params)
	if err != nil {
		w.Fail("params", "%v", err)
		text = []byte("{}")
	}
	w.Line("params", string(text))
}

// Body writes bytes after the header. The caller has validated them.
func (w *Writer) Body(text []byte) { w.b.Write(text) }

// Text returns the written text, or the first error.
func (w *Writer) Text() ([]byte, error) {
	if w.err == nil && w.b.Len() > MaxText {
		w.err = TooLarge(w.b.Len(), MaxText)
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.b.Bytes(), nil
}
