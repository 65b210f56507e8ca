// Package header writes and reads the header lines of signed texts: "key: value" with one space, in a fixed order, in
// UTF-8, with LF, and without control characters. The Reader accepts values leniently. The caller then calls Canonical,
// which writes the parsed values again and compares the result with the text. Each rule about a value is therefore
// implemented only once, where the value is written. The package depends neither on the kinds of texts nor on
// signatures.
package header

import (
	"cmp"
	"strconv"
	"time"

	"writ"
	"writ/internal/clip"
)

const (
	// MaxText limits a signed text, in bytes: the header and its content.
	MaxText = 512 << 10
	// MaxLine limits a header line, in bytes.
	MaxLine = 8 << 10
	// MaxParams limits the line "params", in bytes.
	MaxParams = 64 << 10

	// TimeFormat is the form of times: whole seconds in UTC.
	TimeFormat = "2006-01-02T15:04:05Z"
)

// Malformed returns a PAYLOAD_MALFORMED error.
func Malformed(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodePayloadMalformed, format, args...).
		WithHint("create the text with writ and do not edit it")
}

// TooLarge returns the TOO_LARGE error for a text that has more bytes than allowed.
func TooLarge(have, most int) *writ.Error {
	return writ.Errorf(writ.CodeTooLarge, "the signed text has %d bytes, %d are allowed", have, most).
		WithHint("put large data into images or volumes")
}

// Clip shortens untrusted text for a message.
func Clip(s string) string { return clip.Text(s, 80) }

// FormatTime formats a time in TimeFormat.
func FormatTime(t time.Time) string { return t.UTC().Truncate(time.Second).Format(TimeFormat) }

// FormatDuration formats a duration as an integer with the largest possible unit of h, m and s.
func FormatDuration(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	default:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
}

// YesNo formats a bool as "yes" or "no".
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// OrDash returns s, or "-" for an empty s, because a line needs a value.
func OrDash(s string) string { return cmp.Or(s, "-") }

// DigestOrDash formats a digest, and the zero digest as "-".
func DigestOrDash(d writ.Digest) string {
	if d.IsZero() {
		return "-"
	}
	return d.String()
}

// TimeOrDash formats a time, and the zero time as "-".
func TimeOrDash(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return FormatTime(t)
}

// FromDash is the inverse of OrDash.
func FromDash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}
