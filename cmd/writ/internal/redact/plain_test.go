package redact

import (
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
		"auth", "--pass", "bearer", "sk-", "key", "a", "z", "0", "9", ".", "-", "_", "ef", "4c", "[", "]", ":",
	}
	plain := 0
	for range 3000 {
		var b strings.Builder
		for most := chance.IntN(100); b.Len() <= most; {
			part := parts[chance.IntN(len(parts))]
			if most > maxPlainName+2 {
				part = string("0123456789abcdef.:[]-"[chance.IntN(21)])
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
	for _, s := range []string{"A", "alice@example", "0123456789abg", "a b", "a=b", "a/b"} {
		if isPlain(s) {
			t.Errorf("%q is plain", s)
		}
	}
}
