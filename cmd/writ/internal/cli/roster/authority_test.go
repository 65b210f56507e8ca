package roster

import (
	"testing"
	"time"
)

func TestExpiredValidityIsShown(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 20, 38, 58, 0, time.UTC)
	for want, end := range map[string]time.Time{
		"":                             {},
		"expired 2026-11-29 20:38 UTC": now,
		"expired 2026-11-28 20:38 UTC": now.Add(-24 * time.Hour),
		"2026-11-29 20:39 UTC":         now.Add(time.Minute),
		"2026-12-01":                   now.Add(48 * time.Hour),
	} {
		if got := expiry(end, now); got != want {
			t.Errorf("%s is shown as %q, want %q", end, got, want)
		}
	}
	for want, end := range map[string]time.Time{
		"viewer on shop, expired 2020-01-02 03:04 UTC": time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC),
		"viewer on shop until 2199-01-02":              time.Date(2199, 1, 2, 3, 4, 5, 0, time.UTC),
	} {
		if got := (roleView{Role: "viewer", Project: "shop", Expires: end}).String(); got != want {
			t.Errorf("a role that ends at %s is shown as %q, want %q", end, got, want)
		}
	}
}
