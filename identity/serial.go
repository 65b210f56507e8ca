package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MinSerial is the minimum length of a serial number, in bytes: shorter ones can be guessed.
	MinSerial = 4
	// MaxSerial is the maximum length of a serial number, in bytes.
	MaxSerial = 64
)

// ValidSerial reports whether serial can identify one machine: one line of printable characters that is not a
// placeholder.
func ValidSerial(serial string) bool {
	return len(serial) >= MinSerial && len(serial) <= MaxSerial && utf8.ValidString(serial) &&
		serial == strings.TrimSpace(serial) &&
		!strings.ContainsFunc(serial, func(r rune) bool { return !unicode.IsPrint(r) }) && !Placeholder(serial)
}

// Placeholder reports whether a firmware text is a placeholder that the manufacturer did not replace.
func Placeholder(text string) bool {
	switch strings.ToLower(strings.Trim(text, " .")) {
	case "to be filled by o.e.m", "default string", "not specified", "not applicable", "system manufacturer",
		"system product name", "system serial number",
		"none", "0", "0123456789", "123456789", "00000000":
		return true
	}
	return false
}
