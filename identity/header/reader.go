package header

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"writ"
)

// Reader reads header lines in order and keeps the first error. It is lenient about values; see Canonical.
type Reader struct {
	lines []string
	next  int
	err   error
}

// NewReader splits a header into lines.
func NewReader(header []byte) *Reader {
	if len(header) > MaxText {
		return &Reader{err: TooLarge(len(header), MaxText)}
	}
	return &Reader{lines: strings.Split(strings.TrimSuffix(string(header), "\n"), "\n")}
}

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Fail records an error for the last line that was read, unless there is an earlier one.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = Malformed("line %d: "+format, append([]any{r.next}, args...)...)
	}
}

// One returns the value of the next line, which must have this key.
func (r *Reader) One(key string) string {
	if r.err != nil {
		return ""
	}
	r.next++
	if r.next > len(r.lines) {
		r.Fail("the line %q is missing", key)
		return ""
	}
	value, ok := strings.CutPrefix(r.lines[r.next-1], key+": ")
	if !ok {
		r.Fail("%q should start with %q", Clip(r.lines[r.next-1]), key+": ")
	}
	return value
}

// Many returns the values of the following lines with this key.
func (r *Reader) Many(key string) []string {
	var values []string
	for r.err == nil && r.next < len(r.lines) && strings.HasPrefix(r.lines[r.next], key+": ") {
		values = append(values, r.One(key))
	}
	return values
}

// Skip reads the next line if it equals line, and reports whether it does.
func (r *Reader) Skip(line string) bool {
	if r.err != nil || r.next >= len(r.lines) || r.lines[r.next] != line {
		return false
	}
	r.next++
	return true
}

// End records an error if lines are left.
func (r *Reader) End() {
	if r.err == nil && r.next < len(r.lines) {
		r.next++
		r.Fail("unexpected line %q", Clip(r.lines[r.next-1]))
	}
}

// Number reads a decimal number.
func (r *Reader) Number(key string) int {
	s := r.One(key)
	n, err := strconv.Atoi(s)
	if err != nil {
		r.Fail("%q is not a number", Clip(s))
	}
	return n
}

// Canonical returns the error of the reader, or an error if encode writes the parsed values as another text. The error
// shows the first difference.
func (r *Reader) Canonical(text []byte, encode func() ([]byte, error)) error {
	if r.err != nil {
		return r.err
	}
	want, err := encode()
	if err != nil || bytes.Equal(text, want) {
		return err
	}
	h, w := strings.Split(string(text), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(h), len(w)) {
		if h[i] != w[i] {
			return Malformed("line %d is %q, writ writes %q", i+1, Clip(h[i]), Clip(w[i]))
		}
	}
	return Malformed("the text has %d lines, writ writes %d", len(h), len(w))
}

// Time reads a time.
func (r *Reader) Time(key string) time.Time { return parseTime(r, r.One(key)) }

// Duration reads a duration in the notation of Go.
func (r *Reader) Duration(key string) time.Duration {
	s := r.One(key)
	d, err := time.ParseDuration(s)
	if err != nil {
		r.Fail("a duration such as 30s, 15m or 2h is expected; got %q", Clip(s))
	}
	return d
}

// Digest reads a digest.
func (r *Reader) Digest(key string) writ.Digest { return parseDigest(r, r.One(key)) }

// DigestOrDash reads a digest. It reads "-" as the zero digest.
func (r *Reader) DigestOrDash(key string) (digest writ.Digest) {
	if text := r.One(key); text != "-" {
		digest = parseDigest(r, text)
	}
	return digest
}

func parseDigest(r *Reader, text string) (digest writ.Digest) {
	if r.err != nil {
		return digest
	}
	digest, err := writ.ParseDigest(text)
	if err != nil {
		r.Fail("%v", err)
	}
	return digest
}

// ParseTimeOrDash parses a word of a line as a time. It parses "-" as the zero time.
func (r *Reader) ParseTimeOrDash(word string) (t time.Time) {
	if word != "-" {
		t = parseTime(r, word)
	}
	return t
}

func parseTime(r *Reader, text string) (t time.Time) {
	if r.err != nil {
		return t
	}
	t, err := time.Parse(TimeFormat, text)
	if err != nil {
		r.Fail("%q is not a time like 2026-11-21T10:00:00Z", Clip(text))
	}
	return t
}

// Params reads the line with parameters.
func (r *Reader) Params() map[string]any {
	s := r.One("params")
	if r.err != nil {
		return nil
	}
	params, err := parseParams([]byte(s))
	if err != nil {
		r.Fail("%v", err)
	}
	return params
}

// Fields splits the value of the last line into words, and requires at least `least` words.
func (r *Reader) Fields(value string, least int) []string {
	f := strings.Split(value, " ")
	if len(f) < least {
		r.Fail("%d words are expected", least)
		f = append(f, make([]string, least-len(f))...)
	}
	return f
}
