package identity

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"writ"
)

const (
	maxLine   = 8 << 10  // bytes of a header line
	maxParams = 64 << 10 // bytes of a params line

	// Skew is the tolerated difference between the clocks of a signer and a verifier.
	Skew = time.Minute
	// MaxValidity limits the validity of a payload or statement after its creation.
	MaxValidity = 24 * time.Hour
	// DefaultValidity is the default validity of a payload or statement.
	DefaultValidity = 15 * time.Minute

	timeFormat = "2006-01-02T15:04:05Z"
)

// Format is the version of a signed text's format. It is in the first line of the text.
type Format int

// The formats. FormatV1 is only read, in stored texts of earlier versions of writ. Clients write FormatV2, or FormatV3
// with a certificate. A roster has the earliest format that supports its content.
const (
	FormatV1 Format = 1 // the line `roster` has the version of the signer's roster
	FormatV2 Format = 2 // the line `roster` also has its digest
	FormatV3 Format = 3 // the line `certificate` names the signer's certificate
)

// Nonce is a random value that makes texts with the same content differ.
type Nonce [16]byte

// NewNonce returns a random nonce.
func NewNonce() Nonce {
	var n Nonce
	_, _ = rand.Read(n[:]) // never fails
	return n
}

// String returns the nonce as 32 hex digits.
func (n Nonce) String() string { return hex.EncodeToString(n[:]) }

var (
	principalPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._:/@-]{0,62}$`)
	clusterPattern   = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ValidPrincipal reports whether s is a valid name of a signer: 1 to 63 lower-case letters, digits and "._:/@-", of
// which the first is a letter or digit.
func ValidPrincipal(s string) bool { return principalPattern.MatchString(s) }

func malformed(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodePayloadMalformed, format, args...).WithHint("create the text with writ and do not edit it")
}

// textWriter writes the header lines of a signed text and keeps the first error. Only the writer validates values,
// because parsers re-encode the values that they read.
type textWriter struct {
	b   bytes.Buffer
	err error
}

func (w *textWriter) fail(key, format string, args ...any) {
	if w.err == nil {
		w.err = malformed(key+": "+format, args...)
	}
}

// line writes "key: value". The value must be one line of visible text without spaces at its ends.
func (w *textWriter) line(key, value string) {
	most := maxLine
	if key == "params" {
		most = maxParams
	}
	switch {
	case value == "":
		w.fail(key, "the value is missing")
	case len(key)+len(": ")+len(value) > most:
		if w.err == nil {
			w.err = writ.Errorf(writ.CodeTooLarge, "%s: the line has %d bytes, %d are allowed", key, len(value), most).
				WithHint("put large data into images or volumes")
		}
	case !utf8.ValidString(value):
		w.fail(key, "not UTF-8")
	case strings.ContainsFunc(value, unicode.IsControl):
		w.fail(key, "control characters are not allowed")
	case value[0] == ' ' || value[len(value)-1] == ' ':
		w.fail(key, "starts or ends with a space")
	}
	w.b.WriteString(key)
	w.b.WriteString(": ")
	w.b.WriteString(value)
	w.b.WriteByte('\n')
}

// check records an error for a line unless ok.
func (w *textWriter) check(ok bool, key, format string, args ...any) {
	if !ok {
		w.fail(key, format, args...)
	}
}

func (w *textWriter) cluster(id writ.ClusterID) {
	w.check(clusterPattern.MatchString(string(id)), "cluster", "%q is not the id of a cluster (64 hex digits)", id)
	w.line("cluster", string(id))
}

// format writes the first line.
func (w *textWriter) format(key string, f Format) {
	w.check(f >= FormatV1 && f <= FormatV3, key, "unknown format %d", f)
	w.line(key, "v"+strconv.Itoa(int(f)))
}

// roster writes the version of the roster that the signer has seen and, from FormatV2, its digest.
func (w *textWriter) roster(f Format, version int, digest writ.Digest) {
	if f == FormatV1 {
		w.check(digest.IsZero(), "roster", "the format v1 has no digest")
		w.number("roster", version, 1, maxRosterVersion)
		return
	}
	w.check(version >= 1 && version <= maxRosterVersion, "roster", "%d is not between 1 and %d", version, maxRosterVersion)
	w.check(!digest.IsZero(), "roster", "the digest is missing")
	w.line("roster", strconv.Itoa(version)+" "+digest.String())
}

func (w *textWriter) principal(key, name string) {
	w.check(ValidPrincipal(name), key, "%q is not a valid name", name)
	w.line(key, name)
}

func (w *textWriter) number(key string, n, least, most int) {
	w.check(n >= least && n <= most, key, "%d is not between %d and %d", n, least, most)
	w.line(key, strconv.Itoa(n))
}

// checkTime records an error for an implausible time.
func (w *textWriter) checkTime(key string, t time.Time) {
	y := t.UTC().Year()
	w.check(y >= 2000 && y <= 9999, key, "%s is not a plausible time", t.UTC())
}

func (w *textWriter) time(key string, t time.Time) {
	w.checkTime(key, t)
	w.line(key, formatTime(t))
}

// window writes the lines created and expires.
func (w *textWriter) window(created, expires time.Time, most time.Duration) {
	w.time("created", created)
	w.time("expires", expires)
	d := expires.Truncate(time.Second).Sub(created.Truncate(time.Second))
	w.check(d > 0, "expires", "not after created")
	w.check(d <= most, "expires", "more than %s after created", most)
}

func (w *textWriter) nonce(n Nonce) {
	w.check(n != Nonce{}, "nonce", "not set")
	w.line("nonce", n.String())
}

// text returns the written text, or the first error.
func (w *textWriter) text() ([]byte, error) {
	if w.err == nil && w.b.Len() > MaxText {
		w.err = tooLarge(w.b.Len(), MaxText)
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.b.Bytes(), nil
}

// textReader reads header lines in order and keeps the first error. It is lenient about values: the comparison in same
// makes parsing strict.
type textReader struct {
	lines []string
	next  int
	err   error
}

// newTextReader splits a header into lines.
func newTextReader(header []byte) *textReader {
	if len(header) > MaxText {
		return &textReader{err: tooLarge(len(header), MaxText)}
	}
	return &textReader{lines: strings.Split(strings.TrimSuffix(string(header), "\n"), "\n")}
}

func (r *textReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = malformed("line %d: "+format, append([]any{r.next}, args...)...)
	}
}

// one returns the value of the next line, which must have this key.
func (r *textReader) one(key string) string {
	if r.err != nil {
		return ""
	}
	r.next++
	if r.next > len(r.lines) {
		r.fail("the line %q is missing", key)
		return ""
	}
	value, ok := strings.CutPrefix(r.lines[r.next-1], key+": ")
	if !ok {
		r.fail("%q should start with %q", clip(r.lines[r.next-1]), key+": ")
	}
	return value
}

// many returns the values of the following lines with this key.
func (r *textReader) many(key string) []string {
	var values []string
	for r.err == nil && r.next < len(r.lines) && strings.HasPrefix(r.lines[r.next], key+": ") {
		values = append(values, r.one(key))
	}
	return values
}

// end records an error if lines are left.
func (r *textReader) end() {
	if r.err == nil && r.next < len(r.lines) {
		r.next++
		r.fail("unexpected line %q", clip(r.lines[r.next-1]))
	}
}

func (r *textReader) number(key string) int {
	s := r.one(key)
	n, err := strconv.Atoi(s)
	if err != nil && r.err == nil {
		r.fail("%q is not a number", clip(s))
	}
	return n
}

// format reads the first line.
func (r *textReader) format(key string) Format {
	switch s := r.one(key); {
	case r.err != nil:
	case s == "v1":
		return FormatV1
	case s == "v2":
		return FormatV2
	case s == "v3":
		return FormatV3
	default:
		r.fail("this version of writ does not know the format %q", clip(s))
	}
	return 0
}

// roster reads the version and, from FormatV2, the digest of a roster.
func (r *textReader) roster(f Format) (version int, digest writ.Digest) {
	if f == FormatV1 {
		return r.number("roster"), writ.Digest{}
	}
	s := r.one("roster")
	if r.err != nil {
		return 0, writ.Digest{}
	}
	words := r.fields(s, 2)
	version, err := strconv.Atoi(words[0])
	if err != nil {
		r.fail("%q is not the version of a roster", clip(words[0]))
	}
	if digest, err = writ.ParseDigest(words[1]); err != nil {
		r.fail("%v", err)
	}
	return version, digest
}

func (r *textReader) time(key string) time.Time {
	s := r.one(key)
	if r.err != nil {
		return time.Time{}
	}
	t, err := time.Parse(timeFormat, s)
	if err != nil {
		r.fail("%q is not a time like 2026-11-21T10:00:00Z", clip(s))
	}
	return t
}

func (r *textReader) nonce() Nonce {
	var n Nonce
	s := r.one("nonce")
	if b, err := hex.DecodeString(s); err == nil && len(b) == len(n) {
		copy(n[:], b)
	} else {
		r.fail("a nonce has %d hex digits", 2*len(n))
	}
	return n
}

// fields splits the value of the last line into words, and requires at least least words.
func (r *textReader) fields(value string, least int) []string {
	f := strings.Split(value, " ")
	if len(f) < least {
		r.fail("%d words are expected", least)
		f = append(f, make([]string, least-len(f))...)
	}
	return f
}

// same returns an error that shows the first difference between the text and the re-encoded values.
func same(have, want []byte) error {
	if bytes.Equal(have, want) {
		return nil
	}
	h, w := strings.Split(string(have), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(h), len(w)) {
		if h[i] != w[i] {
			return malformed("line %d is %q, writ writes %q", i+1, clip(h[i]), clip(w[i]))
		}
	}
	return malformed("the text has %d lines, writ writes %d", len(h), len(w))
}

// clip shortens untrusted text for a message.
func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

func formatTime(t time.Time) string { return t.UTC().Truncate(time.Second).Format(timeFormat) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func fromDash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}
