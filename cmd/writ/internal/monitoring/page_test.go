package monitoring

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"writ"
	"writ/coord"
	"writ/coord/api"
	"writ/internal/metrics"
	"writ/internal/test/metricspage"
)

// Operators write alerts from the manual's list of metrics.
func TestTheManualListsEveryMetricOfEveryPart(t *testing.T) {
	metricspage.Check(t, "../../../..", "Metrics of every part", new(Disk).Metrics)
}

// get sends a request to page.
func get(page *Page, path string, change func(r *http.Request)) *httptest.ResponseRecorder {
	page.Log = slog.New(slog.DiscardHandler)
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9180"+path, nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	page.Handler().ServeHTTP(w, r)
	return w
}

func TestAPartThatHangsKeepsNoScrapeWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		part := func(*metrics.Scrape) { <-release }
		began := time.Now()
		answer := get(&Page{Of: []metrics.Part{part}}, "/metrics", nil)
		if took := time.Since(began); answer.Code != http.StatusServiceUnavailable || took > answerWithin {
			t.Errorf("after %s: %d %s", took, answer.Code, answer.Body)
		}
		close(release)
	})
}

func TestADiskThatHangsIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "journal.db")
	for path, size := range map[string]int{store: 100, store + "-wal": 20} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	disk := &Disk{Data: dir, Store: store}
	if s := disk.read(); s.size == 0 || s.free == 0 || s.free > s.size || s.store != 120 {
		t.Errorf("of the disk is read %+v", s)
	}
	count := func() int {
		ch := make(chan prometheus.Metric, 10)
		metrics.Part(disk.Metrics).Collect(ch)
		return len(ch)
	}
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		disk.asked.DoChan("", func() (any, error) { <-hangs; return disk.read(), nil })
		if n := count(); n != 0 {
			t.Errorf("a disk that hangs has %d metrics", n)
		}
		counts := make(chan int)
		for range 2 { // concurrently
			go func() { counts <- count() }()
		}
		synctest.Wait()
		close(hangs)
		if first, second := <-counts, <-counts; first != 3 || second != 3 {
			t.Errorf("metrics of an answering disk in two concurrent scrapes = %d and %d, want 3", first, second)
		}
	})
}

func TestReadinessReportsChecks(t *testing.T) {
	broken := []api.Check{Check("journal", true, "it cannot be written"), Check("redis", false, "Redis does not answer")}
	for _, tt := range []struct {
		checks []api.Check
		status int
	}{{broken[:1], http.StatusOK}, {broken, http.StatusServiceUnavailable}} {
		answer := get(&Page{Checks: func() []api.Check { return tt.checks }}, "/readyz", nil)
		var said api.Readiness
		if err := json.Unmarshal(answer.Body.Bytes(), &said); err != nil || answer.Code != tt.status || said.Ready != (tt.status == http.StatusOK) {
			t.Errorf("%d %s (%v), want %d", answer.Code, answer.Body, err, tt.status)
		}
	}
	if answer := get(&Page{Version: "v1"}, "/healthz", nil); answer.Code != http.StatusOK || answer.Body.String() != `{"alive":true,"version":"v1"}`+"\n" {
		t.Errorf("/healthz: %d %s", answer.Code, answer.Body)
	}
}

func TestAPageOfAStrangerReadsNoMetrics(t *testing.T) {
	answer := get(&Page{}, "/metrics", func(r *http.Request) { r.Host = "attacker.example" })
	var problem struct{ Code writ.Code }
	if err := json.Unmarshal(answer.Body.Bytes(), &problem); err != nil || problem.Code != writ.CodeHostUnknown || answer.Code != writ.CodeHostUnknown.Info().Status {
		t.Errorf("%d %s (%v)", answer.Code, answer.Body, err)
	}
}

// docs/verifies.md documents these routes through the coordinator's list.
func TestListenersHaveTheRoutesOfCoordinators(t *testing.T) {
	if want := slices.Sorted(slices.Values(coord.MetricsRoutes())); !slices.Equal(Routes(), want) {
		t.Errorf("the listener answers %q, the listener of a coordinator %q", Routes(), want)
	}
}
