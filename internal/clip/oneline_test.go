package clip

import "testing"

// Clients escape line breaks when they print a message.
//
// Promise: Machines and the overlay: A driver message is one line everywhere.
// How: Line ends become `; ` before it is sent.
func TestDriverMessageBecomesOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"one":                      "one",
		"one\ntwo\r\nthree\n":      "one; two; three",
		"not \xff text":            "not \uFFFD text",
		"the first line is long":   "the first line is long",
		"the first line is longer": "the first line is long…",
	} {
		if got := OneLine(text, 22); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// A text is cut between two characters, and invalid UTF-8 is replaced.
func TestLongLineIsCutBetweenCharacters(t *testing.T) {
	for _, tt := range []struct {
		text string
		most int
		want string
	}{
		{"abcdé", 6, "abcdé"},
		{"abcdé and more", 5, "abcd…"},
		{"abc日本語", 5, "abc…"},
		{"abc日本語", 6, "abc日…"},
		{"a\xffbc and more", 5, "a\uFFFDb…"},
		{"\x80\x80\x80", 2, "…"},
	} {
		if got := OneLine(tt.text, tt.most); got != tt.want {
			t.Errorf("%q within %d bytes: %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
}
