package runner

import "testing"

// TestWhatADriverSaysTravelsAsOneLine: what shows it replaces the ends of lines by what cannot be read.
func TestWhatADriverSaysTravelsAsOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"one":                      "one",
		"one\ntwo\r\nthree\n":      "one; two; three",
		"not \xff text":            "not \uFFFD text",
		"the first line is long":   "the first line is long",
		"the first line is longer": "the first line is long …",
	} {
		if got := clip(text, 22); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
