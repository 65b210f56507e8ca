package metrics_test

import (
	"strings"
	"testing"
	"time"

	"writ/internal/metrics"
	"writ/internal/test/metricspage"
)

func TestEachScrapeReadsTheValuesAgain(t *testing.T) {
	var rooms []string
	var seen metrics.Moment
	part := func(to *metrics.Scrape) {
		letters := to.Gauge("room_letters", "Letters of a name.", "room")
		for _, room := range rooms {
			letters(float64(len(room)), room)
		}
		to.Time("seen_seconds", "Last sight.", seen.Last())
		to.Flag("seen", "Whether it was seen.", !seen.Last().IsZero())
	}
	page := metricspage.Read(t, part)
	if got := page.Value("seen"); got != 0 || len(page) != 1 {
		t.Errorf("at first the metrics are %v", page)
	}
	rooms = []string{"hall", "attic"}
	seen.Note(time.UnixMilli(1500))
	page = metricspage.Read(t, part)
	if hall, all := page.Value("room_letters", "room", "hall"), page.Sum("room_letters"); hall != 4 || all != 9 {
		t.Errorf("the hall has %g letters of %g, want 4 of 9", hall, all)
	}
	if is, at := page.Value("seen"), page.Value("seen_seconds"); is != 1 || at != 1.5 {
		t.Errorf("it was seen: %g, at %g", is, at)
	}
}

// Jobs, journal writes and messages of nodes are counted.
func TestCountingAllocatesNothing(t *testing.T) {
	counts, times := metrics.Counts("c", "", "what", "code"), metrics.DurationsOf("d", "", "what")
	once := metrics.Durations("o", "")
	var last metrics.Moment
	now := time.Now()
	what, code := strings.Clone("job"), strings.Clone("OK")
	if n := testing.AllocsPerRun(100, func() {
		counts.WithLabelValues(what, code).Inc()
		times.WithLabelValues(what).Observe(1.5)
		once.Observe(1.5)
		last.Note(now)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
