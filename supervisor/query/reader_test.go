package query

import (
	"testing"
	"time"
)

func TestRetentionHasReadableUnit(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		20 * time.Second: "20s", 36 * time.Hour: "36h", 48 * time.Hour: "2 days", 90 * 24 * time.Hour: "90 days",
	} {
		if got := retention(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
