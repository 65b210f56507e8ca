package identity

import (
	"strings"
	"testing"
	"time"

	"writ/identity/header"
)

// TestWrongDurationIsNamed checks the message about an end that is before the statement or too late.
func TestWrongDurationIsNamed(t *testing.T) {
	for end, want := range map[time.Duration]string{-time.Second: "before its statement", 48 * time.Hour: "for at most"} {
		until := header.FormatTime(noon.Add(end))
		s := &Statement{Created: noon}
		Batch{ID: "aaaaaaaaaaaaa", Serials: []string{"4711"}, Most: 1}.Statement(s)
		s.Params["until"] = until
		if _, err := ParseBatch(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a batch until %s: %v, want %q", until, err, want)
		}
		TokenGrant{ID: "aaaaaaaaaaaaa", Role: TokenRoleNode}.Statement(s)
		s.Params["expires"] = until
		if _, err := ParseTokenGrant(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a token until %s: %v, want %q", until, err, want)
		}
	}
}
