package coord

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"writ"
	"writ/coord/api"
	"writ/coord/front"
	"writ/identity"
	"writ/internal/test/testenv"
)

// TestPublicRequestsLogFewLines sends each request a thousand times, from a thousand addresses, each within its rate.
//
// Promise: Load and attackers: Other parties cannot fill a log through requests, links, changed records, Redis
// content, transfer connections or non-TLS bytes.
// How: The first of a kind is logged with its code, then one every ten seconds with the count; state changes may
// appear twenty times first.
// Also: TestForgedRunsLogFewLines, TestFailedStepsAreLoggedOncePerCode,
// TestRefusedSessionsLogFewLines, TestAFlappingLinkLogsFewLines, TestFailingRequestsLogFewLines,
// TestDroppedMessagesLogFewLines, TestUnsignedJobsLogFewLines, TestRequestsOfStrangersLogFewLines,
// TestUnreadableTasksLogFewLines, TestStrangersMakeAFewLinesOfAServer.
func TestPublicRequestsLogFewLines(t *testing.T) {
	send := func(p *fixture, method, path, kind string, body []byte, from int, change func(r *http.Request)) int {
		r := httptest.NewRequest(method, p.PublicURL+path, bytes.NewReader(body))
		r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:1", from>>8, from&255)
		r.Header.Set("Content-Type", kind)
		if change != nil {
			change(r)
		}
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, r)
		return w.Code
	}
	foreign := func(r *http.Request) { r.Host = "attacker.example" }
	crossing := func(r *http.Request) { r.Header.Set("Origin", "https://attacker.example") }
	good := signedScript(t, payload())
	registration, err := json.Marshal(api.NewRegistration{Name: "north", Key: bytes.Repeat([]byte{7}, 32), Nonce: make([]byte, identity.NonceSize)})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		method, path, kind string
		body               []byte
		change             func(r *http.Request)
		status             int
		said               string
	}{
		"posts for another host":     {"POST", "/v1/statements", api.SignedType, nil, foreign, 421, string(writ.CodeHostUnknown)},
		"reads for another host":     {"GET", "/v1/runs", "", nil, foreign, 421, string(writ.CodeHostUnknown)},
		"posts of another site":      {"POST", "/v1/statements", api.SignedType, nil, crossing, 403, string(writ.CodeOriginForeign)},
		"reads of another site":      {"GET", "/v1/runs", "", nil, crossing, 403, string(writ.CodeOriginForeign)},
		"posts to nowhere":           {"POST", "/v1/nothing", api.SignedType, nil, nil, 404, string(writ.CodeNotFound)},
		"registrations of nobody":    {"POST", front.RegistrationsPath, "application/json", []byte("{}"), nil, 400, string(writ.CodeBadRequest)},
		"registrations":              {"POST", front.RegistrationsPath, "application/json", registration, nil, 202, "asks for admission"},
		"statements without a name":  {"POST", "/v1/statements", api.SignedType, []byte("nothing"), nil, 400, "statement refused"},
		"the same script, by others": {"POST", "/v1/submissions", api.SignedType, good, nil, 202, "submission repeated"},
	} {
		t.Run(name, func(t *testing.T) {
			log := new(testenv.Log)
			p := start(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
			for i := range 1000 {
				if status := send(p, tt.method, tt.path, tt.kind, tt.body, i, tt.change); status != tt.status {
					t.Fatalf("the answer is %d, want %d", status, tt.status)
				}
			}
			if lines := log.Lines(""); lines > 5 { // includes the first line of a roster and of a submission
				t.Errorf("a thousand make %d lines, as this one:\n%s", lines, log)
			}
			if log.Lines(tt.said) != 1 {
				t.Errorf("%q is not there once:\n%s", tt.said, log)
			}
		})
	}
	t.Run("each is logged once", func(t *testing.T) {
		p := start(t, nil)
		send(p, "POST", "/v1/statements", api.SignedType, []byte("nothing"), 0, nil)
		if said := p.log.Lines("refused"); said != 1 {
			t.Errorf("a statement that is refused is %d lines:\n%s", said, p.log)
		}
	})
	t.Run("requests for another host are limited too", func(t *testing.T) {
		const rate = 100 // per second; the burst is twice the rate, and a busy machine must exceed it within a second
		p, codes := start(t, func(c *Config) { c.RequestsPerSecond = rate }), map[int]int{}
		for range 3 * rate {
			codes[send(p, "POST", "/v1/statements", api.SignedType, nil, 0, foreign)]++
		}
		if codes[421] == 0 || codes[429] == 0 {
			t.Errorf("statuses of a burst = %v", codes)
		}
	})
}
