package coord

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

func TestSubmissionReachesItsDatacenter(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, nil)
	text := signedScript(t, payload())
	got, err := p.submit(text)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != writ.SubmissionWaiting && got.State != writ.SubmissionDelivered || got.Datacenter != vienna || got.Script != "hello.tengo" {
		t.Errorf("answer: %+v", got)
	}
	p.await("delivered", func() bool { return p.run(got.Run).State == api.RunStateAccepted })
	again, err := p.submit(text)
	if err != nil || again.Run != got.Run || again.State != writ.SubmissionDelivered {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	if took := s.took(); !slices.Equal(took, []writ.RunID{got.Run}) {
		t.Errorf("the datacenter took %v; want the run once", took)
	}
	done := writ.Run{ID: got.Run, State: writ.RunSucceeded, Accepted: time.Now().UTC(), Ended: time.Now().UTC(), Summary: []byte("signed")}
	s.tell(writ.Event{Run: &done})
	p.await("succeeded", func() bool { return p.run(got.Run).State == api.RunStateSucceeded })
	if run := p.run(got.Run); string(run.Summary) != "signed" || !run.State.Ended() || run.Created.IsZero() {
		t.Errorf("run: %+v", run)
	}
}

func TestSubmissionAnswerNamesTheRun(t *testing.T) {
	p := start(t, nil)
	// As curl sends it.
	response, err := p.client.SubmitWithBody(t.Context(), "application/x-www-form-urlencoded", bytes.NewReader(signedScript(t, payload())))
	if err != nil {
		t.Fatal(err)
	}
	location := response.Header.Get("Location")
	s, err := api.Answer[api.Submission](response, nil)
	if err != nil || response.StatusCode != 202 || location != "/v1/runs/"+string(s.Run) || s.Run != writ.RunIDOf(s.Payload) {
		t.Errorf("status %d, location %q, %+v, %v", response.StatusCode, location, s, err)
	}
	same, err := api.Answer[api.Submission](p.client.GetSubmission(t.Context(), s.Payload))
	if err != nil || same.Run != s.Run {
		t.Errorf("by its digest: %+v, %v", same, err)
	}
}

func TestSubmissionWaitsForItsDatacenter(t *testing.T) {
	p := start(t, nil)
	connect(p, graz, nil) // another datacenter, which must not get it
	var want []writ.RunID
	for range 3 {
		s, err := p.submit(signedScript(t, payload()))
		if err != nil || s.State != writ.SubmissionWaiting {
			t.Fatalf("%+v, %v", s, err)
		}
		want = append(want, s.Run)
	}
	run := p.run(want[0])
	if run.State != api.RunStateWaiting || run.State.Ended() || !testenv.Mentions(run.Reason, "datacenter vienna") {
		t.Errorf("while it waits: %+v", run)
	}
	list, err := api.Answer[api.RunPage](p.client.ListRuns(t.Context(), &api.ListRunsParams{State: []api.RunState{api.RunStateWaiting}, Datacenter: api.Given("vienna")}))
	if err != nil || len(list.Items) != 3 {
		t.Errorf("waiting runs: %+v, %v", list, err)
	}
	s := connect(p, vienna, nil)
	p.await("all delivered", func() bool { return p.run(want[2]).State == api.RunStateAccepted && len(s.took()) == 3 })
}

// Promise: Failures: A killed coordinator loses no confirmed request.
// How: It writes the ledger before the answer.
func TestRestartLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	open := func() ledger.Ledger {
		l, err := sqlstore.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first := open()
	p := start(t, func(c *Config) { c.Ledger = first })
	waiting, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	p.stop()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := open()
	defer second.Close()
	p = start(t, func(c *Config) { c.Ledger, c.Cluster = second, "" }) // the ledger knows the cluster
	connect(p, vienna, nil)
	p.await("delivered", func() bool { return p.run(waiting.Run).State == api.RunStateAccepted })
	p.stop()
}

// ahead is a clock that a test can set.
type ahead struct{ by atomic.Int64 }

func (a *ahead) now() time.Time { return time.Now().Add(time.Duration(a.by.Load())) }

func TestWaitingSubmissionExpires(t *testing.T) {
	var clock ahead
	p := start(t, func(c *Config) { c.Now = clock.now })
	s, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	p.delivery.Expire(t.Context())
	if run := p.run(s.Run); run.State != api.RunStateWaiting {
		t.Fatalf("before its time: %+v", run)
	}
	clock.by.Store(int64(identity.DefaultValidity + time.Second))
	p.await("expired", func() bool { return p.run(s.Run).State == api.RunStateExpired })
	run := p.run(s.Run)
	if run.Failure == nil || run.Failure.Code != writ.CodeExpired || run.Failure.Hint == "" || !run.State.Ended() {
		t.Errorf("run: %+v", run)
	}
	dc := connect(p, vienna, nil)
	fresh := payload()
	fresh.Created, fresh.Expires = clock.now().UTC().Truncate(time.Second), clock.now().UTC().Truncate(time.Second).Add(time.Minute)
	dc.mu.Lock()
	dc.refuses = func() error { return writ.Errorf(writ.CodeRoleMissing, "no") }
	dc.mu.Unlock()
	next, err := p.submit(signedScript(t, fresh))
	if err != nil {
		t.Fatal(err)
	}
	p.await("the next one is verified", func() bool { return p.run(next.Run).State == api.RunStateRefused })
	if run := p.run(s.Run); run.State != api.RunStateExpired {
		t.Errorf("an expired submission was delivered: %+v", run)
	}
}

// badSubmissions spoils a good submission in every way that the early check must detect.
func badSubmissions(t *testing.T) map[string]struct {
	text []byte
	code writ.Code
} {
	change := func(by func(p *identity.Payload)) []byte {
		p := payload()
		by(p)
		return signedScript(t, p)
	}
	good := payload()
	text, err := good.Text()
	if err != nil {
		t.Fatal(err)
	}
	type bad = struct {
		text []byte
		code writ.Code
	}
	return map[string]bad{
		"nothing":           {nil, writ.CodeSignatureMalformed},
		"no signature":      {text, writ.CodeSignatureMalformed},
		"another purpose":   {signed(t, "alice", sshsig.StatementNamespace, good), writ.CodeSignatureNamespace},
		"a stranger":        {signed(t, "mallory", sshsig.ScriptNamespace, good), writ.CodeSignerUnknown},
		"in another's name": {signed(t, "bob", sshsig.ScriptNamespace, good), writ.CodeSignerUnknown},
		"without the role":  {signed(t, "bob", sshsig.ScriptNamespace, func() *identity.Payload { p := payload(); p.Signer = "bob"; return p }()), writ.CodeRoleMissing},
		"altered":           {bytes.Replace(signedScript(t, good), []byte("max-calls: 10"), []byte("max-calls: 11"), 1), writ.CodeSignatureInvalid},
		"expired": {change(func(p *identity.Payload) {
			p.Created, p.Expires = p.Created.Add(-time.Hour), p.Created.Add(-time.Hour/2)
		}), writ.CodeExpired},
		"of the future":         {change(func(p *identity.Payload) { p.Created, p.Expires = p.Created.Add(time.Hour), p.Expires.Add(time.Hour) }), writ.CodeNotYetValid},
		"of another cluster":    {change(func(p *identity.Payload) { p.Cluster = writ.ClusterID(strings.Repeat("0", 64)) }), writ.CodeWrongCluster},
		"for nowhere":           {change(func(p *identity.Payload) { p.Datacenter = writ.DatacenterID(writ.NewUUID()) }), writ.CodeDatacenterUnknown},
		"of an unknown project": {change(func(p *identity.Payload) { p.ProjectName = "other" }), writ.CodeProjectUnknown},
		"for a newer roster":    {change(func(p *identity.Payload) { p.Roster = 2 }), writ.CodeRosterTooOld},
		"too big":               {append(text, bytes.Repeat([]byte("x"), api.MaxSigned)...), writ.CodeTooLarge},
		"a big text":            {append(text, bytes.Repeat([]byte("x"), 600<<10)...), writ.CodeTooLarge},
	}
}

func TestBadSubmissionHasNoEffect(t *testing.T) {
	p := start(t, nil)
	dc := connect(p, vienna, nil)
	for name, bad := range badSubmissions(t) {
		status, body := p.post("/v1/submissions", bad.text)
		wantProblem(t, name, status, body, bad.code)
		if !strings.Contains(p.log.String(), `msg="submission refused" remote=127.0.0.1`) || !strings.Contains(p.log.String(), "code="+string(bad.code)) {
			t.Errorf("%s: the log lacks the code %s or the address", name, bad.code)
		}
	}
	if runs, err := p.Ledger.CountRuns(t.Context(), ledger.RunFilter{}); err != nil || len(runs) != 0 {
		t.Errorf("runs: %v, %v", runs, err)
	}
	if took := dc.took(); len(took) != 0 {
		t.Errorf("the datacenter took %v", took)
	}
	if _, metrics := p.get("/metrics"); !strings.Contains(metrics, `writ_refusals_total{code="SIGNATURE_INVALID",what="submission"} 1`) {
		t.Error("the metrics do not count the altered one")
	}
}

func TestAnyFlippedBitIsRefused(t *testing.T) {
	p := start(t, nil)
	good := signedScript(t, payload())
	testenv.CheckProperty(t, func(r *rapid.T) {
		bad := bytes.Clone(good)
		at := rapid.IntRange(0, len(bad)-1).Draw(r, "byte")
		bad[at] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
		if _, err := p.delivery.Submit(t.Context(), bad, "test"); err == nil {
			r.Fatalf("accepted with byte %d changed to %q", at, bad[at])
		}
	})
}

// Without the early check, the datacenter refuses the submission, and its submitter sees the refusal.
func TestTheSupervisorRefusesAnUncheckedSubmission(t *testing.T) {
	p := start(t, func(c *Config) { c.SkipEarlyCheckForTest = true })
	dc := connect(p, vienna, nil)
	for _, name := range []string{"altered", "a stranger", "without the role", "expired", "another purpose"} {
		bad := badSubmissions(t)[name]
		s, err := p.submit(bad.text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p.await(name, func() bool { return p.run(s.Run).State.Ended() })
		run := p.run(s.Run)
		if run.State != api.RunStateRefused || run.Failure == nil || run.Failure.Code != bad.code {
			t.Errorf("%s: %+v", name, run)
		}
		if s, err := p.Ledger.Submission(t.Context(), s.Payload); err != nil || s.State != writ.SubmissionRefused || s.Error.Code != bad.code {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	if took := dc.took(); len(took) != 0 {
		t.Errorf("the datacenter took %v", took)
	}
}

func TestUndecidedSubmissionIsTriedAgain(t *testing.T) {
	p := start(t, nil)
	var asked atomic.Int32
	connect(p, vienna, func(s *supervisor) {
		s.refuses = func() error {
			if asked.Add(1) == 1 {
				return writ.Errorf(writ.CodeStoreUnavailable, "the disk is full")
			}
			return nil
		}
	})
	s, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	p.await("asked", func() bool { return p.delivery.Trouble(s.Payload) != nil })
	if run := p.run(s.Run); run.State != api.RunStateWaiting || !strings.Contains(run.Reason, "the disk is full") {
		t.Errorf("meanwhile: %+v", run)
	}
	p.await("delivered", func() bool { return p.run(s.Run).State == api.RunStateAccepted })
	if p.delivery.Trouble(s.Payload) != nil {
		t.Error("old trouble is remembered")
	}
}

func TestManySubmissionsAreDeliveredOnceEach(t *testing.T) {
	p := start(t, nil)
	dc := connect(p, vienna, nil)
	const many = 60
	var group sync.WaitGroup
	for range many {
		text := signedScript(t, payload())
		for range 2 { // every client sends it twice
			group.Go(func() {
				if _, err := p.delivery.Submit(t.Context(), text, "test"); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	p.await("all delivered", func() bool {
		counts, err := p.Ledger.CountRuns(t.Context(), ledger.RunFilter{})
		return err == nil && counts.Total()["accepted"] == many
	})
	took := dc.took()
	slices.Sort(took)
	// An answer was late, so it was delivered again.
	failed := strings.Contains(p.log.String(), "deliver submissions; trying again")
	if len(slices.Compact(slices.Clone(took))) != many || len(took) != many && !failed {
		t.Errorf("the datacenter got %d submissions, %d different ones; want each of %d once", len(took), len(slices.Compact(took)), many)
	}
}
