package cli

import (
	"testing"
	"time"

	"writ"
)

func TestUsageMonthIsChecked(t *testing.T) {
	now := time.Date(2026, 3, 31, 23, 30, 0, 0, time.FixedZone("west", -60*60)) // already April in UTC
	for text, want := range map[string]string{"2026-04": "2026-04", "2025-12": "2025-12", "all": ""} {
		if got, err := UsageMonth(text, now); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"2026-05", "2099-01", "2026-13", "2026-11-01", "november", ""} {
		if _, err := UsageMonth(text, now); writ.CodeOf(err) != writ.CodeUsage {
			t.Errorf("%s: %v", text, err)
		}
	}
}
