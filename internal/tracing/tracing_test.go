package tracing

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"writ"
	"writ/internal/test/testenv"
)

var run = writ.RunIDOf(writ.DigestOf([]byte("a payload")))

func TestTraceIDIsTheRunID(t *testing.T) {
	r := OfRun(run)
	if id := writ.RunID(runEncoding.EncodeToString(r.trace[:])); !r.trace.IsValid() || OfRun(writ.RunID(strings.ToLower(string(id)))) != r || strings.ToLower(string(id)) != string(run) {
		t.Errorf("trace %x belongs to %s", r.trace, id)
	}
	all := map[Place]bool{r: true}
	for _, p := range []Place{OfCall(run, 1), OfCall(run, 2), OfAttempt(run, 1, 1), OfAttempt(run, 1, 2), OfAttempt(run, 1, 1).Part("job"), r.Part("delivery")} {
		if all[p] || p.trace != r.trace {
			t.Errorf("%+v is another's place, or in another trace", p)
		}
		all[p] = true
	}
	if OfAttempt(run, 1, 1).parent != OfCall(run, 1).id || OfCall(run, 1).parent != r.id || r.parent.IsValid() {
		t.Error("spans hang elsewhere")
	}
}

func TestSpansReachTheCollectorAsTheyWere(t *testing.T) {
	got := make(chan *collector.ExportTraceServiceRequest, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if body, err = gzip.NewReader(r.Body); err != nil {
				t.Error(err)
				return
			}
		}
		text, err := io.ReadAll(body)
		request := new(collector.ExportTraceServiceRequest)
		if err != nil || proto.Unmarshal(text, request) != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		got <- request
	}))
	defer server.Close()
	e, err := Open(t.Context(), Settings{URL: server.URL, Ratio: 1, Service: "writ-test", Version: "v1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	call := OfCall(run, 1)
	e.Record(Span{At: call, Name: "volume.create data", From: from, Until: from.Add(2 * time.Second), Labels: map[string]string{"node": "n1", "driver": ""}, Error: "NO_SPACE: full"})
	e.Record(Span{At: OfRun(run), Name: "web.tengo", From: from.Add(time.Second), Until: from}) // by two clocks
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	spans := (<-got).ResourceSpans[0].ScopeSpans[0].Spans
	if len(spans) != 2 {
		t.Fatalf("%v", spans)
	}
	c, r := spans[0], spans[1]
	if hex.EncodeToString(c.TraceId) != call.trace.String() || hex.EncodeToString(c.SpanId) != call.id.String() || string(c.ParentSpanId) != string(r.SpanId) || len(r.ParentSpanId) != 0 {
		t.Errorf("%v below %v", c, r)
	}
	if c.Name != "volume.create data" || c.StartTimeUnixNano != uint64(from.UnixNano()) || c.EndTimeUnixNano-c.StartTimeUnixNano != 2e9 ||
		c.Status.GetMessage() != "NO_SPACE: full" || len(c.Attributes) != 1 || c.Attributes[0].Key != "writ.node" {
		t.Errorf("%v", c)
	}
	if r.EndTimeUnixNano != r.StartTimeUnixNano || r.Status.GetMessage() != "" {
		t.Errorf("%v", r)
	}
}

func TestSpanErrorHasOneForm(t *testing.T) {
	var s Span
	if s.Fail(nil); s.Error != "" || len(s.Labels) > 0 {
		t.Errorf("of no error: %+v", s)
	}
	s.Fail(writ.Errorf(writ.CodeNodeLost, "it is gone").WithHint("wait"))
	if s.Error != "NODE_LOST: it is gone" || s.Labels["code"] != "NODE_LOST" {
		t.Errorf("%+v", s)
	}
}

func TestUnreachableCollectorBlocksNothing(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	said := new(testenv.Log)
	e, err := Open(t.Context(), Settings{URL: server.URL, Ratio: 1, Service: "writ-test", Log: said.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		e.Record(Span{At: OfRun(run), Name: "x", From: time.Now(), Until: time.Now()})
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(said.String(), "send traces") {
		t.Errorf("log = %q", said)
	}
}

func TestRunsAreChosenByTheirIDs(t *testing.T) {
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { n++ }))
	defer server.Close()
	e, err := Open(t.Context(), Settings{URL: server.URL, Service: "writ-test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	e.Record(Span{At: OfCall(run, 1), Name: "x", From: time.Now(), Until: time.Now()})
	if err := e.Close(); err != nil || n != 0 {
		t.Errorf("%d requests, %v; want none of no runs", n, err)
	}
}

func TestInvalidCollectorAddressesAreRejected(t *testing.T) {
	for _, s := range []Settings{{URL: "127.0.0.1:4318", Ratio: 1}, {URL: "grpc://a:1", Ratio: 1}, {URL: "http://", Ratio: 1}, {URL: "http://me:pass@a", Ratio: 1}, {URL: "http://a", Ratio: 2}, {URL: "http://a", Ratio: -1}} {
		if _, err := Open(t.Context(), s); writ.CodeOf(err) != writ.CodeUsage {
			t.Errorf("%+v: %v", s, err)
		}
	}
	e, err := Open(t.Context(), Settings{})
	if e != nil || err != nil || e.Close() != nil {
		t.Errorf("%v, %v", e, err)
	}
	e.Record(Span{})
}
