package ratelog_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/internal/test/metricspage"
	"writ/supervisor/ratelog"
)

func TestRepeatedWarningsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := ratelog.New(slog.New(slog.NewTextHandler(&out, nil)))
		lines := func() int { return strings.Count(out.String(), "\n") }
		for _, step := range []struct {
			warnings int
			pause    time.Duration
			want     int // lines in all
		}{
			{1, 0, 1},
			{3, 9 * time.Second, 1},
			{0, time.Second, 2},      // the pause is over
			{1, 19 * time.Second, 2}, // it has doubled
			{0, time.Second, 3},      // again
			{0, 40 * time.Second, 3}, // forgotten
			{1, 0, 4},                // logged at once
			{0, 11 * time.Second, 4}, // forgotten again
		} {
			for range step.warnings {
				log.Warn("n1", "cannot read", "bytes", 3)
			}
			time.Sleep(step.pause)
			log.Repeat(time.Now())
			if lines() != step.want {
				t.Fatalf("%d lines after %+v:\n%s", lines(), step, out.String())
			}
		}
	})
}

func TestRefusalsAreCountedByCode(t *testing.T) {
	var out bytes.Buffer
	log := ratelog.New(slog.New(slog.NewTextHandler(&out, nil)))
	log.Refused("n1", "bad record", writ.Errorf(writ.CodeRecordForged, "it was changed"))
	log.Refused("n2", "bad record", writ.Errorf(writ.CodeRecordForged, "it was changed"))
	log.Refused("", "bad record", writ.Errorf("UNHEARD_OF", "odd"))
	log.Warn("", "bad record")
	page := metricspage.Read(t, log.Metrics)
	for code, want := range map[writ.Code]float64{writ.CodeRecordForged: 2, writ.CodeInternal: 1, "": 1} {
		got := page.Value("writ_supervisor_complaints_total", "what", "bad record", "code", string(code))
		if got != want {
			t.Errorf("code %q counted %g times, want %g", code, got, want)
		}
	}
	if n := strings.Count(out.String(), "level=ERROR"); n != 2 {
		t.Errorf("%d errors, want one for each node with a forged record:\n%s", n, out.String())
	}
}
