package coord

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"writ"
	"writ/coord/api"
	"writ/coord/delivery"
	"writ/identity/sshsig"
	"writ/ledger"
)

// Promise: Limits and shares: Waiting submissions cannot fill a coordinator: the limits are 50,000 and 512 MiB per
// signer, 200,000 and 2 GiB in total.
// How: They are counted by signer from the ledger every 5 s and as they arrive; bytes with an invalid signature are
// never stored.
// Also: TestBadSubmissionHasNoEffect.
func TestWaitingSubmissionsAreBounded(t *testing.T) {
	first := signedScript(t, payload())
	bound := func(signer, all ledger.Waits) *fixture {
		return start(t, nil, func(c *Coordinator) { c.delivery.Quota = delivery.Quota{Signer: signer, All: all} })
	}
	one, none := ledger.Waits{Submissions: 1, Bytes: 1 << 30}, ledger.Waits{Submissions: 1 << 20, Bytes: 1 << 40}
	bytes := ledger.Waits{Submissions: 100, Bytes: int64(len(first)) + 100}
	for name, most := range map[string]struct{ signer, all ledger.Waits }{
		"by number of a signer": {one, none},
		"in bytes of a signer":  {bytes, none},
		"by number of all":      {none, one},
		"in bytes of all":       {none, bytes},
	} {
		p := bound(most.signer, most.all)
		for range 2 { // a repeated submission is accepted without room
			if _, err := p.submit(first); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if _, err := p.submit(signedScript(t, payload())); writ.CodeOf(err) != writ.CodeRateLimited || writ.AsError(err).Hint == "" {
			t.Errorf("%s: one more: %v, want %s with a hint", name, err, writ.CodeRateLimited)
		}
	}
}

func TestRepeatedSubmissionsTakeNoRoom(t *testing.T) {
	first := signedScript(t, payload())
	p := start(t, nil, func(c *Coordinator) { c.delivery.Quota.Signer = ledger.Waits{Submissions: 2, Bytes: 1 << 30} })
	for range 5 {
		if _, err := p.submit(first); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.submit(signedScript(t, payload())); err != nil {
		t.Errorf("the second submission: %v", err)
	}
	if _, err := p.submit(signedScript(t, payload())); writ.CodeOf(err) != writ.CodeRateLimited {
		t.Errorf("the third submission: %v", err)
	}
	waits, err := p.Ledger.WaitingBySigner(t.Context())
	total := ledger.Waits{}
	for _, w := range waits {
		total = total.Plus(w)
	}
	if err != nil || len(waits) != 1 || total.Submissions != 2 {
		t.Fatalf("waiting: %v, %v", waits, err)
	}
}

// A project that submits faster than permitted waits, and is then refused with the time to retry; another project does
// not wait.
//
// Promise: Limits and shares: A project submits at most 50 times a second at one coordinator, 100 at once; further
// submissions wait for 5 s and then get `RATE_LIMITED`.
// How: `--project-rate`; submissions are counted by project after verification; 16 KiB count as one; other projects
// do not wait.
// Also: TestCallerOverItsRateWaits.
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
//
// Promise: Limits and shares: A person submits at most 10 statements a second at one coordinator, 20 at once; further
// ones wait for 5 s and then get `RATE_LIMITED`.
// How: Statements are counted by signer after verification, at a fifth of `--project-rate`.
func TestStatementsOfASignerAreLimited(t *testing.T) {
	// A statement at once, and the next one in 10 s.
	p := start(t, func(c *Config) { c.SubmissionsPerSecond = 0.5 })
	connect(p, vienna, nil)
	run, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	cancel := func() (int, string) {
		return p.post("/v1/statements", signed(t, "alice", sshsig.StatementNamespace, statement("run/"+string(run.Run), "cancel")))
	}
	if status, body := cancel(); status != http.StatusOK {
		t.Fatalf("status %d, %s", status, body)
	}
	status, body := cancel()
	wantProblem(t, "one more", status, body, writ.CodeRateLimited)
	if again, err := p.delivery.Signers.Wait(t.Context(), "carol", 1, 0); err != nil || again > 0 {
		t.Errorf("another person waits %s, %v", again, err)
	}
}
