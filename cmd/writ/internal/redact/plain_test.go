package redact

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"writ/internal/test/testenv"
)

// TestPlainTextsHoldNoSecrets searches random plain texts with all patterns.
func TestPlainTextsHoldNoSecrets(t *testing.T) {
	chance := rand.New(rand.NewPCG(testenv.Seed(t, 0), 0))
	parts := []string{
		"xoxb-", "xapp-1-", "whsec_", "whsk_", "sk_live_", "ghp_", "glrt-", "hf_", "hvs.", "dapi", "npm_", "dop_v1_", "ya29.", "writ1.", "password", "passwd",
		"auth", "AUTH", "AKIA", "eyJ", "--pass", "bearer", "sk-", "key", "a", "z", "0", "9", ".", "-", "_", "ef", "4c", "[", "]", ":",
	}
	plain := 0
	for range 3000 {
		var b strings.Builder
		for most := chance.IntN(100); b.Len() <= most; {
			part := parts[chance.IntN(len(parts))]
			switch {
			case most > maxPlainID+2:
				part = string("0123456789abcdef.:[]-"[chance.IntN(21)])
			case most > maxPlainName+2:
				part = []string{"dapi", "sbp", "hf", "key", "auth", "g", "z", "0", "9"}[chance.IntN(9)]
			}
			b.WriteString(part)
		}
		s := b.String()
		if !isPlain(s) {
			continue
		}
		if plain++; searched(s) != s {
			t.Errorf("%q is plain, but becomes %q", s, searched(s))
		}
	}
	if plain < 500 {
		t.Errorf("only %d texts were plain", plain)
	}
	for _, s := range []string{"alice@example", "dapi0123456789abcdef0123456789abcdef", "0123456789abG", "0123456789ab_", "a b", "a=b", "a/b"} {
		if isPlain(s) {
			t.Errorf("%q is plain", s)
		}
	}
}

// The set of harmless texts stays small, and holds neither secrets nor long texts.
func TestFewHarmlessTextsAreKept(t *testing.T) {
	long := strings.Repeat("a b ", maxKnownText)
	for _, s := range []string{"password=opensesame", long} {
		for range 2 {
			if got := Text(s); (got == s) != (s == long) {
				t.Errorf("Text(%q) = %q", s, got)
			}
		}
		if harmless.has(s) {
			t.Errorf("%q is kept", s)
		}
	}
	for i := range 3 * maxKnown {
		Text(fmt.Sprint("message ", i))
	}
	if n := len(harmless.texts); n > maxKnown || !harmless.has(fmt.Sprint("message ", 3*maxKnown-1)) {
		t.Errorf("%d texts are kept", n)
	}
}
