package main

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/webhook"
	"writ/internal/test/testenv"
)

// A webhook receives events about a failed run and a lost node, and a run is one trace from the command line to the
// driver.
func TestEventsAreSentToWebhooksAndTraced(t *testing.T) {
	testenv.Nightly(t, "TestCoordinatorSendsEventsToWebhooks and TestRunIsATraceOfItsParts of coord, TestEachAttemptOfAJobIsASpanOfItsCall of runner")
	t.Parallel()
	told := make(chan webhook.Message, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m webhook.Message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		m.ID = r.Header.Get("webhook-id")
		told <- m
	}))
	t.Cleanup(receiver.Close)
	spans := make(chan *trace.Span, 1000)
	traces := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		request := new(collector.ExportTraceServiceRequest)
		if err != nil || proto.Unmarshal(body, request) != nil {
			t.Errorf("spans cannot be read: %v", err)
			return
		}
		for _, r := range request.ResourceSpans {
			for _, s := range r.ScopeSpans {
				for _, span := range s.Spans {
					spans <- span
				}
			}
		}
	}))
	t.Cleanup(traces.Close)
	dir := t.TempDir()
	hooks := filepath.Join(dir, "webhooks.yaml")
	for name, text := range map[string]string{
		hooks: "webhooks:\n  - {name: ops, url: " + receiver.URL + ", secret_file: ops.secret, types: [run.ended, node.lost, node.back]}\n", filepath.Join(dir, "ops.secret"): "whsec_" + strings.Repeat("c2Vj", 11),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := testcluster.Empty(t, "WRIT_TRACES="+traces.URL, "OTEL_BSP_SCHEDULE_DELAY=100")
	s.Coord = []string{"--webhooks", hooks}
	s.Found()
	s.Says(writ.ExitDone, []string{"ops accepted the message"}, "webhook", "test", "--webhooks", hooks)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	known := map[string]bool{}
	next := func(want webhook.Type) map[string]any {
		t.Helper()
		for late := time.After(testcluster.Patience); ; {
			select {
			case m := <-told:
				if known[m.ID] {
					continue // a coordinator may repeat events that were sent before it was killed
				}
				if known[m.ID] = true; m.Type != want {
					t.Fatalf("got event %s, %v; want %s", m.Type, m.Data, want)
				}
				data, _ := m.Data.(map[string]any)
				return data
			case <-late:
				t.Fatalf("no event %s", want)
			}
		}
	}
	next(webhook.Test)
	s.Script("make.tengo", "volume := import(\"volume\")\nvolume.create(\"data\", {size_gib: 1})\nvolume.create(\"more\", {size_gib: 1}, {node: \"nowhere\"})\n")
	_, said, code := s.Try("submit", "make.tengo")
	if code != writ.ExitFailed {
		t.Fatalf("exit %d: %s", code, said)
	}
	ended := next(webhook.RunEnded)
	if ended["state"] != "failed" || ended["project"] != "default" || ended["script"] != "make.tengo" || ended["datacenter"] != "dc1" {
		t.Errorf("%v", ended)
	}

	all := map[string]*trace.Span{} // by name
	for late := time.After(testcluster.Patience); all["driver simulated"] == nil || all["writ submit"] == nil || all["make.tengo"] == nil || all["carry out"] == nil || all["deliver"] == nil || all["step"] == nil; {
		select {
		case span := <-spans:
			all[span.Name] = span
		case <-late:
			t.Fatalf("missing spans; got %v", all)
		}
	}
	parents := map[string]string{
		"writ submit": "make.tengo", "hand in": "writ submit", "deliver": "make.tengo", "step": "make.tengo", "volume.create data": "make.tengo", "queue": "volume.create data",
		"carry out": "volume.create data", "driver simulated": "carry out",
	}
	for child, parent := range parents {
		if all[child] == nil || all[parent] == nil || hex.EncodeToString(all[child].ParentSpanId) != hex.EncodeToString(all[parent].SpanId) || string(all[child].TraceId) != string(all["make.tengo"].TraceId) {
			t.Errorf("%s is not below %s", child, parent)
		}
	}

	s.Kill("dc1-n1")
	if lost := next(webhook.NodeLost); lost["name"] != "dc1-n1" {
		t.Errorf("%v", lost)
	}
	s.Kill("coord") // the next coordinator remembers the loss of the node
	s.Restart("coord")
	s.Restart("dc1-n1")
	if back := next(webhook.NodeBack); back["name"] != "dc1-n1" {
		t.Errorf("%v", back)
	}
}
