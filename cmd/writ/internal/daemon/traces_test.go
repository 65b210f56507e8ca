package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/internal/tracing"
)

// A daemon ends without an error if its collector rejects traces or hangs. Its log reports the missing traces.
//
// Promise: Events, traces and the API: A run is one trace from the command line to the driver, without tracing data
// on the wire, and an unreachable collector delays no work.
// How: Ids derive from the run; spans wait in a queue that drops.
// Also: TestEachAttemptOfAJobIsASpanOfItsCall, TestEventsAreSentToWebhooksAndTraced,
// TestSpansReachTheCollectorAsTheyWere, TestUnreachableCollectorBlocksNothing, TestRunIsATraceOfItsParts.
func TestFailingCollectorDoesNotFailTheDaemon(t *testing.T) {
	t.Parallel() // the last traces are tried for some seconds
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer collector.Close()
	said := new(testenv.Log)
	traces, end, err := OpenTraces(t.Context(), tracing.Settings{URL: collector.URL, Ratio: 1}, "writ-test", "test", said.Logger())
	if err != nil {
		t.Fatal(err)
	}
	traces.Record(tracing.Span{At: tracing.OfRun(writ.RunIDOf(writ.Digest{1})), Name: "x", From: time.Now(), Until: time.Now()})
	end()
	if !strings.Contains(said.String(), "some traces are not sent") {
		t.Errorf("log = %q", said)
	}
	if _, end, err = OpenTraces(t.Context(), tracing.Settings{}, "writ-test", "test", said.Logger()); err != nil {
		t.Error(err)
	}
	end()
}
