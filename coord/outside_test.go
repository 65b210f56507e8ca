package coord

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/webhook"
)

// Promise: Events, traces and the API: A webhook message reaches its receiver at least once, in order and under one
// id, also after restarts of coordinator and receiver.
// How: The ledger stores the position of each webhook; messages have the form of Standard Webhooks; the test verifies
// with its library.
// Also: TestEventsAreReportedInOrderAndOnce, TestMessageWithLostAnswerIsResent.
func TestCoordinatorSendsEventsToWebhooks(t *testing.T) {
	got := make(chan webhook.Message, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := webhook.Message{Data: new(webhook.Node)}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusNoContent)
		got <- m
	}))
	defer receiver.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ops.secret": "whsec_" + strings.Repeat("c2Vj", 11) + "\n", "webhooks.yaml": "webhooks:\n  - {name: ops, url: " + receiver.URL + ", secret_file: ops.secret, types: [node.lost]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, func(c *Config) {
		var err error
		if c.Webhooks, err = webhook.Read(filepath.Join(dir, "webhooks.yaml")); err != nil {
			t.Fatal(err)
		}
	})
	for at := time.Now(); ; time.Sleep(time.Millisecond) { // later events are delivered
		if place, err := p.Ledger.WebhookAt(t.Context(), "ops"); err != nil || place != nil {
			break
		}
		if time.Since(at) > hang {
			t.Fatalf("the webhook has no place; the log:\n%s", p.log)
		}
	}
	node := writ.Node{ID: "n1", Name: "node-1", Admission: writ.AdmissionApproved, Liveness: writ.LivenessLost}
	connect(p, vienna, nil).tell(writ.Event{Node: &node})
	select {
	case m := <-got:
		if data := m.Data.(*webhook.Node); m.Type != webhook.NodeLost || data.Name != "node-1" || data.Datacenter != "vienna" || data.URL != p.PublicURL+"/nodes/"+string(vienna)+"/n1" {
			t.Errorf("%+v, %+v", m, m.Data)
		} else if status, page := p.get(strings.TrimPrefix(data.URL, p.PublicURL)); status != http.StatusOK || !strings.Contains(page, "node-1") {
			t.Errorf("the address that it names answers %d", status)
		}
	case <-time.After(hang):
		t.Fatalf("no request; the log:\n%s", p.log)
	}
}
