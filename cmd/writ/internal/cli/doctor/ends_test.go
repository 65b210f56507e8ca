package doctor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ/identity/expiring"
)

func TestDoctorNamesThingsThatExpire(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	got := findEnds([]expiring.Item{
		{What: "a token", At: now.Add(31 * 24 * time.Hour), Renew: "writ token create"},
		{What: "a token", At: now.Add(29 * 24 * time.Hour), Renew: "writ token create"},
		{What: "a certificate", At: now.Add(-time.Second), Renew: "read the log"},
	}, now)
	want := []finding{
		{Check: "expiry", State: suspect, Detail: "a token expires on 2026-03-30", Fix: "writ token create"},
		{Check: "expiry", State: ill, Detail: "a certificate has expired", Fix: "read the log"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
