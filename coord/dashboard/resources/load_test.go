package resources

import (
	"testing"
	"time"

	"writ/coord/api"
)

func TestChartHasGapsAndStaysInItsBox(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 3, 0, 0, time.UTC)
	at := func(slot int, value int64) api.LoadSample {
		return api.LoadSample{At: now.Truncate(slotTime).Add(time.Duration(slot-chartSlots+1) * slotTime), MilliCPUs: value}
	}
	for name, tt := range map[string]struct {
		samples []api.LoadSample
		want    string
	}{
		"none":           {nil, ""},
		"ends":           {[]api.LoadSample{at(0, 100), at(chartSlots-1, 50)}, "M0 40V0H1V40ZM287 40V20H288V40Z"},
		"steps":          {[]api.LoadSample{at(5, 50), at(6, 100), at(7, 0)}, "M5 40V20H6V0H7V40H8V40Z"},
		"gap":            {[]api.LoadSample{at(5, 50), at(7, 50)}, "M5 40V20H6V40ZM7 40V20H8V40Z"},
		"outside":        {[]api.LoadSample{at(-1, 100), at(chartSlots, 100), at(9000, 100)}, ""},
		"not in order":   {[]api.LoadSample{at(7, 100), at(5, 100), at(7, 100)}, "M7 40V0H8V40Z"},
		"twice the same": {[]api.LoadSample{at(7, 100), at(7, 50)}, "M7 40V0H8V40Z"},
	} {
		if got := chartPath(tt.samples, now, 100, func(s api.LoadSample) int64 { return s.MilliCPUs }); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	if got := chartPath([]api.LoadSample{at(5, 0)}, now, 0, func(s api.LoadSample) int64 { return s.MilliCPUs }); got != "M5 40V40H6V40Z" {
		t.Errorf("without use: %q", got)
	}
}
