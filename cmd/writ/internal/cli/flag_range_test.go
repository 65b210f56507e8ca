package cli

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestDurationMayBeginWithDays(t *testing.T) {
	var d time.Duration
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.DurationVar(&d, "keep", time.Hour, "")
	InRange(f, "keep", &d, time.Second, 100*365*24*time.Hour)
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "90m": 90 * time.Minute, "0d1s": time.Second,
		"d": 0, "-1d": 0, "1.5d": 0, "2d3": 0, "1h1d": 0, "0d": 0, "40000d": 0, "99999999999999999999d": 0,
	} {
		d = 0
		if err := f.Set("keep", text); (err == nil) != (want > 0) || want > 0 && d != want {
			t.Errorf("%s: %s, %v", text, d, err)
		}
	}
}
