package coord

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/supervisor/link"
)

// Promise: Limits and shares: A coordinator whose clock is far ahead deletes no run of the last 90 days.
// How: The age of a run counts up to the latest end of a run, by the clock of its datacenter.
func TestClockFarAheadDeletesNoRun(t *testing.T) {
	var ahead atomic.Int64
	p := start(t, func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	s := connect(p, vienna, nil)
	in, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	p.await("accepted", func() bool { return p.run(in.Run).State == api.RunStateAccepted })
	ended := writ.Run{
		ID: in.Run, Payload: in.Payload, State: writ.RunSucceeded, Accepted: in.Received, Ended: time.Now().UTC(),
	}
	s.tell(writ.Event{Run: &ended})
	p.await("ended", func() bool { return p.run(in.Run).State == api.RunStateSucceeded })
	ahead.Store(int64(200 * 24 * time.Hour))
	p.prune(t.Context())
	ahead.Store(0)
	if got := p.run(in.Run); got.State != api.RunStateSucceeded {
		t.Errorf("it is %q", got.State)
	}
}

// Promise: Limits and shares: A coordinator keeps the signed texts of the newest revision and of the newest successful
// revision of each deployment, regardless of their age.
// How: Pruning deletes a revision 90 days after another one replaced it. Above 2,000 kept revisions of a project in a
// datacenter, the oldest ones are deleted.
// Also: TestLedgerInMemory, TestKeptRevisionsAreLimited.
func TestNewestRevisionKeepsItsText(t *testing.T) {
	var ahead atomic.Int64
	p := start(t, func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	s := connect(p, vienna, nil)
	end := func(revision int, deployment string, state writ.RunState) writ.Digest {
		t.Helper()
		text := payload()
		text.Params = map[string]any{"revision": int64(revision)}
		if text.Deployment.Name = deployment; revision > 0 {
			text.Deployment.Base = revision - 1
		}
		in, err := p.submit(signedScript(t, text))
		if err != nil {
			t.Fatal(err)
		}
		p.await("accepted", func() bool { return p.run(in.Run).State == api.RunStateAccepted })
		s.tell(writ.Event{Run: &writ.Run{
			ID: in.Run, Project: shop, ProjectName: "web-shop", Deployment: deployment, Revision: revision, Payload: in.Payload,
			State: state, Accepted: in.Received, Ended: time.Now().UTC(),
		}})
		p.await("ended", func() bool { return p.run(in.Run).State == api.RunState(state) })
		return in.Payload
	}
	replaced := end(1, "web", writ.RunSucceeded)
	succeeded := end(2, "web", writ.RunSucceeded)
	failed := end(3, "web", writ.RunFailed)
	newest := end(4, "web", writ.RunFailed)
	free := end(0, "", writ.RunSucceeded)

	const later = DefaultKeepRuns + 24*time.Hour
	clock := writ.Run{ID: someRun, State: writ.RunSucceeded, Accepted: time.Now().UTC(), Ended: time.Now().Add(later).UTC()}
	s.tell(writ.Event{Run: &clock}) // the datacenter's clock proves the time
	p.await("later", func() bool {
		latest, err := p.Ledger.LatestEnd(t.Context())
		return err == nil && latest.Equal(clock.Ended.Truncate(time.Microsecond))
	})
	ahead.Store(int64(later))
	p.prune(t.Context())
	ahead.Store(0)

	text := func(payload writ.Digest) (api.SignedText, error) {
		return api.Answer[api.SignedText](p.client.GetSigned(t.Context(), payload))
	}
	for revision, payload := range map[int64]writ.Digest{2: succeeded, 4: newest} {
		kept, err := text(payload)
		if err != nil {
			t.Errorf("revision %d: %v", revision, err)
			continue
		}
		v, err := identity.PastSubmission(&identity.Verifier{Roster: firstRoster(), Datacenter: vienna}, kept.Signed)
		if err != nil || v.Payload.Params["revision"] != revision || len(v.Payload.Script.Text) == 0 {
			t.Errorf("revision %d: %+v, %v", revision, v, err)
		}
	}
	for name, payload := range map[string]writ.Digest{
		"revision 1": replaced, "revision 3": failed, "a run without a deployment": free,
	} {
		if _, err := text(payload); writ.CodeOf(err) != writ.CodeNotFound {
			t.Errorf("%s: %v, want %s", name, err, writ.CodeNotFound)
		}
	}
}

// A submission may be repeated after the ledger has deleted its run. The datacenter answers with the run that ended.
func TestRepeatedSubmissionOfDeletedRunHasItsEnd(t *testing.T) {
	p := start(t, nil)
	var ended atomic.Pointer[writ.Run] // in the journal
	s := connect(p, vienna, func(s *supervisor) {
		s.dialer.Handle = func(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
			if run := ended.Load(); run != nil && verb == link.VerbSubmit {
				return *run, nil
			}
			return s.handle(ctx, verb, params)
		}
	})
	text := signedScript(t, payload())
	in, err := p.submit(text)
	if err != nil {
		t.Fatal(err)
	}
	p.await("accepted", func() bool { return p.run(in.Run).State == api.RunStateAccepted })
	run := writ.Run{
		ID: in.Run, Datacenter: vienna, Project: shop, ProjectName: "web-shop", Signer: "alice", Payload: in.Payload,
		State: writ.RunSucceeded, Accepted: in.Received, Ended: time.Now().UTC(),
	}
	s.tell(writ.Event{Run: &run})
	p.await("ended", func() bool { return p.run(in.Run).State == api.RunStateSucceeded })
	ended.Store(&run)

	if err := p.Ledger.Prune(t.Context(), time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Answer[api.Run](p.client.GetRun(t.Context(), in.Run)); writ.CodeOf(err) != writ.CodeNotFound {
		t.Fatalf("the run was not deleted: %v", err)
	}
	again, err := p.submit(text)
	if err != nil || again.Run != in.Run {
		t.Fatalf("run %s, %v, want %s", again.Run, err, in.Run)
	}
	p.await("known again", func() bool { return p.run(in.Run).State == api.RunStateSucceeded })
	if got := p.run(in.Run); got.Ended.IsZero() || len(s.took()) != 1 {
		t.Errorf("it is %+v, and the datacenter accepted %v", got, s.took())
	}
}

func TestAgeOfRunsEndsWithTheLatest(t *testing.T) {
	now := time.Date(2031, 5, 1, 9, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ latest, want time.Time }{
		{now.Add(-time.Hour), now.Add(-time.Hour - DefaultKeepRuns)},
		{now.Add(time.Hour), now.Add(-DefaultKeepRuns)}, // by a datacenter whose clock is ahead
		{time.Time{}, time.Time{}.Add(-DefaultKeepRuns)},
	} {
		if got := (Retention{Runs: DefaultKeepRuns}).runsBefore(now, tt.latest); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", tt.latest, got, tt.want)
		}
	}
}

// Promise: Operation: An operator sets how long a coordinator keeps runs and events (`--keep-runs`, `--keep-events`).
func TestRetentionIsConfigured(t *testing.T) {
	var ahead atomic.Int64
	p := start(t, func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		c.Retention = Retention{Events: 2 * time.Hour, Runs: 24 * time.Hour}
	})
	s := connect(p, vienna, nil)
	tell := func(id writ.RunID, ended time.Time) {
		s.tell(writ.Event{Run: &writ.Run{ID: id, State: writ.RunSucceeded, Accepted: time.Now().UTC(), Ended: ended.UTC()}})
		p.await("stored", func() bool {
			_, err := p.Ledger.Run(t.Context(), id)
			return err == nil
		})
	}
	left := func(after time.Duration) (run bool, events int64) {
		t.Helper()
		ahead.Store(int64(after))
		p.prune(t.Context())
		_, err := p.Ledger.Run(t.Context(), someRun)
		oldest, newest, rangeErr := p.Ledger.EventRange(t.Context())
		if rangeErr != nil {
			t.Fatal(rangeErr)
		}
		return err == nil, newest - oldest + 1
	}
	tell(someRun, time.Now())
	if run, events := left(time.Hour); !run || events == 0 {
		t.Errorf("after an hour: run %t, %d events", run, events)
	}
	if run, events := left(3 * time.Hour); !run || events != 0 {
		t.Errorf("after three hours: run %t, %d events", run, events)
	}
	tell(writ.RunIDOf(writ.Digest{8}), time.Now().Add(25*time.Hour)) // the datacenter's clock proves the time
	if run, _ := left(25 * time.Hour); run {
		t.Error("the run is kept for more than a day")
	}
}
