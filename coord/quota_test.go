package coord

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/ledger"
)

func TestWaitingSubmissionsAreBounded(t *testing.T) {
	p := start(t, nil)
	first := signedScript(t, payload())
	for name, most := range map[string]struct{ signer, all ledger.Waits }{
		"by number of a signer": {ledger.Waits{Submissions: 1, Bytes: 1 << 30}, allWait},
		"in bytes of a signer":  {ledger.Waits{Submissions: 100, Bytes: int64(len(first)) + 100}, allWait},
		"by number of all":      {signerWaits, ledger.Waits{Submissions: 1, Bytes: 1 << 30}},
		"in bytes of all":       {signerWaits, ledger.Waits{Submissions: 100, Bytes: int64(len(first)) + 100}},
	} {
		p.quota.mu.Lock()
		// It counts again, including the contents of the ledger.
		p.quota.signer, p.quota.all, p.quota.waits = most.signer, most.all, nil
		p.quota.mu.Unlock()
		if _, err := p.submit(first); err != nil {
			t.Fatalf("%s: the first, or the same again: %v", name, err)
		}
		if _, err := p.submit(signedScript(t, payload())); writ.CodeOf(err) != writ.CodeRateLimited || writ.AsError(err).Hint == "" {
			t.Errorf("%s: one more: %v, want %s with a hint", name, err, writ.CodeRateLimited)
		}
	}
	p.quota.mu.Lock()
	p.quota.signer, p.quota.all, p.quota.waits = ledger.Waits{Submissions: 3, Bytes: 1 << 30}, allWait, nil
	p.quota.mu.Unlock()
	for range 5 { // repeated submissions take no room
		if _, err := p.submit(first); err != nil {
			t.Fatal(err)
		}
	}
	p.quota.mu.Lock()
	if all := p.quota.waits[""]; all.Submissions != 1 || all.Bytes != int64(len(first)) {
		t.Errorf("after the same came again and again, %+v are counted", all)
	}
	p.quota.mu.Unlock()
	waits, err := p.Ledger.WaitingBySigner(t.Context())
	if err != nil || len(waits) != 1 {
		t.Fatalf("what waits: %v, %v", waits, err)
	}
	for signer, w := range waits {
		if w != (ledger.Waits{Submissions: 1, Bytes: int64(len(first))}) {
			t.Errorf("of %s waits %+v, want the first of %d bytes", signer, w, len(first))
		}
	}
}

// A project that submits faster than permitted waits, and is then refused with the time to retry; another project does
// not wait.
func TestNoProjectHandsInMoreThanItMay(t *testing.T) {
	p := start(t, func(c *Config) { c.SubmissionsPerSecond = 0.1 }) // one at once, and the next one in 10 s
	if _, err := p.submit(signedScript(t, payload())); err != nil {
		t.Fatal(err)
	}
	_, err := p.submit(signedScript(t, payload()))
	if writ.CodeOf(err) != writ.CodeRateLimited || !strings.Contains(err.Error(), "web-shop") || writ.AsError(err).Hint == "" {
		t.Errorf("one more: %v, want %s with a hint", err, writ.CodeRateLimited)
	}
	answer, err := p.client.SubmitWithBody(t.Context(), api.SignedType, bytes.NewReader(signedScript(t, payload())))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q", answer.StatusCode, answer.Header.Get("Retry-After"))
	}
	other := payload()
	other.Project, other.ProjectName = blog, "web-blog"
	if _, err := p.submit(signedScript(t, other)); err != nil {
		t.Errorf("another project: %v", err)
	}
}

// Cancelling a run costs its datacenter more than starting one. The statements of one person delay no other person.
func TestStatementsOfASignerAreLimited(t *testing.T) {
	// A statement at once, and the next one in 10 s.
	p := start(t, func(c *Config) { c.SubmissionsPerSecond = 0.5 })
	connect(p, vienna, nil)
	run, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	cancel := func() (int, string) {
		return p.post("/v1/statements", signed(t, "alice", identity.StatementNamespace, statement("run/"+string(run.Run), "cancel")))
	}
	if status, body := cancel(); status != http.StatusOK {
		t.Fatalf("status %d, %s", status, body)
	}
	status, body := cancel()
	wantProblem(t, "one more", status, body, writ.CodeRateLimited)
	if err := p.awaitStatement(t.Context(), "carol"); err != nil {
		t.Errorf("somebody else: %v", err)
	}
}
