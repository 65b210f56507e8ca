package coord

import (
	"strings"
	"testing"
	"time"

	"writ/identity"
)

func TestARosterAsksForItsRenewalFromHalfOfItsLife(t *testing.T) {
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := &identity.Roster{Version: 7, Created: made, Expires: made.Add(90 * 24 * time.Hour)}
	for _, tt := range []struct {
		after time.Duration
		says  string
	}{
		{0, ""},
		{45*24*time.Hour - time.Second, ""},
		{45 * 24 * time.Hour, "Version 7 of the roster expires on 2026-04-01."},
		{90*24*time.Hour + time.Second, "Version 7 of the roster expired on 2026-04-01: no datacenter accepts new work."},
	} {
		got := renewalNotice(r, made.Add(tt.after))
		if (tt.says == "") != (got == "") || !strings.HasPrefix(got, tt.says) || got != "" && !strings.Contains(got, "writ roster renew") {
			t.Errorf("after %s: %q, want %q", tt.after, got, tt.says)
		}
	}
	if got := renewalNotice(nil, made); got != "" {
		t.Errorf("without a roster: %q", got)
	}
}
