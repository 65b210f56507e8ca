package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MinSerial is how many bytes the serial number of a machine has at least: shorter ones are guessed.
	MinSerial = 4
	// MaxSerial is how many it has at most.
	MaxSerial = 64
)

// ValidSerial reports whether a text can be the serial number of one machine: one line of visible characters, and no placeholder.
func ValidSerial(serial string) bool {
	return len(serial) >= MinSerial && len(serial) <= MaxSerial && utf8.ValidString(serial) && serial == strings.TrimSpace(serial) &&
		!strings.ContainsFunc(serial, func(r rune) bool { return !unicode.IsPrint(r) }) && !Placeholder(serial)
}

// Placeholder reports whether a text stands in firmware where the maker of a machine had nothing to say: the texts of a form that was not filled in.
func Placeholder(text string) bool {
	switch strings.ToLower(strings.Trim(text, " .")) {
	case "to be filled by o.e.m", "default string", "not specified", "not applicable", "system manufacturer", "system product name", "system serial number",
		"none", "0", "0123456789", "123456789", "00000000":
		return true
	}
	return false
}
