package hidden_test

import (
	"bytes"
	"slices"
	"testing"
	"unicode"

	"writ/internal/hidden"
)

func TestHiddenCharactersAreFound(t *testing.T) {
	for _, r := range "\u00ad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff\u3164\u115f\ufe00\U000e0041\U000e0100\u2028" {
		if !hidden.Is(r) {
			t.Errorf("%U is seen", r)
		}
	}
	for _, r := range "\u202a\u202e\u2066\u2069\u200f" {
		if !hidden.Turns(r) {
			t.Errorf("%U does not turn the text", r)
		}
	}
	for _, r := range "aZ0 _é中µ—“\u00a0\ufe0fß🚀\t\n" {
		if hidden.Is(r) || hidden.Turns(r) {
			t.Errorf("%U is hidden", r)
		}
	}
	if got := hidden.Escape("a\u202eb\U000e0041c"); got != `a\u202eb\U000e0041c` {
		t.Errorf("it is shown as %q", got)
	}
}

func TestDisguisedWordsAreFound(t *testing.T) {
	for _, tt := range []struct {
		word           string
		anyWord, named bool
	}{
		{"admin", false, false},
		{"\u0430dmin", true, true},                // Cyrillic a
		{"web\u03bf", true, true},                 // Greek o
		{"\u0441\u043e\u0440\u0443", false, true}, // only Cyrillic
		{"\uff41dmin", true, true},
		{"größe", false, false},
		{"размер", false, false},
		{"Δt", false, false},
		{"名前", false, false},
	} {
		if got := hidden.Disguised(tt.word, false); got != tt.anyWord {
			t.Errorf("%q in a text: %v", tt.word, got)
		}
		if got := hidden.Disguised(tt.word, true); got != tt.named {
			t.Errorf("%q as a name: %v", tt.word, got)
		}
	}
}

// Each character is searched for alone, after a character of each length, and before one.
func TestControlCharactersAreFound(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		for _, before := range []string{"", "a\t\n", "\u00a0", "\u2028", "\U00010080"} {
			text := slices.Concat([]byte(before), []byte(string(r)), []byte("\u00c2"))
			if got, want := hidden.IndexControl(text), bytes.IndexFunc(text, hidden.IsControl); got != want {
				t.Fatalf("%U after %q: %d, want %d", r, before, got, want)
			}
		}
	}
}
