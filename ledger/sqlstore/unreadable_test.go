package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/ledger"
)

// spoilt is a ledger whose rows a test can change.
type spoilt struct {
	*Store
	t        *testing.T
	reported []string
}

func newSpoilt(t *testing.T) *spoilt {
	s, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	l := &spoilt{Store: s, t: t}
	s.OnUnreadable(func(u ledger.Unreadable) { l.reported = append(l.reported, u.Row) })
	return l
}

func (s *spoilt) exec(query string, args ...any) {
	s.t.Helper()
	err := s.db.Write(failpoint.At(s.t.Context(), failpoint.LedgerProbed), func(tx *sqldb.Tx) error {
		changed, err := affected(tx.ExecContext(s.t.Context(), query, args...))
		if err == nil && !changed {
			err = fmt.Errorf("no row changed by %s", query)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *spoilt) submit(name string, age time.Duration) writ.Submission {
	s.t.Helper()
	payload := writ.DigestOf([]byte(name))
	in := ledger.Incoming{Submission: writ.Submission{
		Payload: payload, Run: writ.RunIDOf(payload), Datacenter: "dc", Project: "p", Signer: "alice", Script: "a.tengo",
		Received: time.Now().Add(-age), Expires: time.Now().Add(time.Hour - age),
	}, Signed: []byte("signed")}
	added, _, err := s.AddSubmission(s.t.Context(), in)
	if err != nil {
		s.t.Fatal(err)
	}
	return added
}

func (s *spoilt) runsOf(list []writ.Submission, err error) []writ.RunID {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	runs := []writ.RunID{}
	for _, one := range list {
		runs = append(runs, one.Run)
	}
	return runs
}

// Promise: Failures: One unreadable submission in the ledger does not stop the deliveries of its datacenter.
// How: Lists skip the row. The coordinator logs it once and shows the error at its run.
// Also: TestUnreadableRowEndsNoList, TestUnreadableSubmissionStopsNoDelivery.
func TestUnreadableSubmissionIsSkipped(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil   string
		expires bool
	}{
		"reason":            {`UPDATE submissions SET failure = '{' WHERE run = $1`, true},
		"digest":            {`UPDATE submissions SET payload = 'none of ' || run WHERE run = $1`, false},
		"digest in capital": {`UPDATE submissions SET payload = UPPER(payload) WHERE run = $1`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpoilt(t)
			bad := []writ.Submission{s.submit("1", 4*time.Hour), s.submit("2", 3*time.Hour), s.submit("4", time.Hour)}
			good := []writ.Submission{s.submit("3", 2*time.Hour), s.submit("5", time.Minute)}
			for _, b := range bad {
				s.exec(tt.spoil, string(b.Run))
			}
			want := s.runsOf(good, nil)
			if got := s.runsOf(s.Waiting(t.Context(), "dc", "p", ledger.Position{}, 2)); !slices.Equal(got, want) {
				t.Errorf("waiting: %v, want %v", got, want)
			}
			want = want[:1]
			if tt.expires { // it can still be rejected
				want = []writ.RunID{bad[0].Run, bad[1].Run, good[0].Run, bad[2].Run}
			}
			now := time.Now().Add(time.Second)
			if got := s.runsOf(s.Overdue(t.Context(), now, 4)); !slices.Equal(got, want) {
				t.Errorf("overdue: %v, want %v", got, want)
			}
			s.runsOf(s.Waiting(t.Context(), "dc", "p", ledger.Position{}, 2))
			if len(s.reported) != len(bad) {
				t.Errorf("reported %q, want each of %d rows once", s.reported, len(bad))
			}
			known, err := s.Submission(t.Context(), bad[0].Payload)
			if tt.expires && (err != nil || known.Error == nil || known.Error.Code != writ.CodeStoreDamaged) {
				t.Errorf("the unreadable submission: %+v, %v", known, err)
			}
			// The datacenter has the run after all.
			run := writ.Run{ID: bad[0].Run, State: writ.RunRunning, Accepted: time.Now()}
			if err := s.StoreEvents(t.Context(), "dc", []writ.Event{{Journal: "j", Seq: 1, Run: &run}}); err != nil {
				t.Errorf("events of its run: %v", err)
			}
		})
	}
}

func TestRunWithUnreadableRecordExpires(t *testing.T) {
	s := newSpoilt(t)
	in := s.submit("1", 2*time.Hour)
	s.exec(`UPDATE runs SET body = '{' WHERE id = $1`, string(in.Run))
	why := writ.Errorf(writ.CodeExpired, "too late")
	if err := s.Reject(t.Context(), in.Payload, writ.SubmissionExpired, why); err != nil {
		t.Fatal(err)
	}
	run, err := s.Run(t.Context(), in.Run)
	if err != nil || run.Failure == nil || run.Failure.Code != writ.CodeExpired || run.Payload != in.Payload {
		t.Errorf("%+v, %v", run, err)
	}
}

// Of two rows of each table, the first is unreadable.
func TestUnreadableRowEndsNoList(t *testing.T) {
	s := newSpoilt(t)
	ctx := t.Context()
	at := time.Now()
	runs := []writ.Run{
		{ID: "r1", Project: "p", State: writ.RunRunning, Accepted: at}, {ID: "r2", Project: "p", State: writ.RunRunning, Accepted: at},
	}
	call := func(run writ.RunID, seq int) writ.Event {
		return writ.Event{Call: &writ.Call{Run: run, Seq: seq, State: writ.CallRunning, Operation: "vm.ensure"}}
	}
	events := []writ.Event{
		{Run: &runs[0]}, {Run: &runs[1]}, call("r1", 1), call("r1", 2),
		{Node: &writ.Node{ID: "n1", Name: "a"}}, {Node: &writ.Node{ID: "n2", Name: "b"}},
		{Resource: &writ.Resource{ResourceID: writ.ResourceID{Project: "p", Kind: "vm", Name: "a"}}},
		{Resource: &writ.Resource{ResourceID: writ.ResourceID{Project: "p", Kind: "vm", Name: "b"}}},
	}
	for i := range events {
		events[i].Journal, events[i].Seq = "j", int64(i)+1
	}
	if err := s.StoreEvents(ctx, "dc", events); err != nil {
		t.Fatal(err)
	}
	for _, r := range []ledger.Registration{{Name: "a", Token: "1", Key: []byte("a")}, {Name: "b", Token: "2", Key: []byte("b")}} {
		if err := s.AddRegistration(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, spoil := range []string{
		`UPDATE runs SET body = '{' WHERE id = 'r1'`, `UPDATE calls SET body = '{' WHERE seq = 1`,
		`UPDATE nodes SET body = '{' WHERE id = 'n1'`, `UPDATE resources SET body = '{' WHERE name = 'a'`,
		`UPDATE events SET body = '{' WHERE id = 1`, `UPDATE registrations SET key_text = '!' WHERE name = 'a'`,
		`INSERT INTO regions (name) VALUES ('r')`,
		`INSERT INTO datacenters (id, region, name, body) VALUES ('a', 'r', 'a', '{'), ('b', 'r', 'b', '{}')`,
	} {
		s.exec(spoil)
	}
	one := ledger.Page{Limit: 1}
	for name, list := range map[string]func(context.Context) (read int, err error){
		"runs": func(ctx context.Context) (int, error) { // shown with an error
			list, err := s.Runs(ctx, ledger.RunFilter{}, ledger.Page{})
			if len(list.Items) != 2 || list.Items[1].ID != "r1" && list.Items[0].ID != "r1" {
				return -1, err
			}
			run, err := s.Run(ctx, "r1")
			if run.Failure == nil || run.Failure.Code != writ.CodeStoreDamaged || run.Project != "p" {
				return -1, err
			}
			return 1, err
		},
		"unreported": func(ctx context.Context) (int, error) {
			list, err := s.Unreported(ctx, "dc", "another", "", 10)
			return len(list), err
		},
		"calls": func(ctx context.Context) (int, error) { return pagesOf(ctx, one, s.callsOf("r1")) },
		"open calls": func(ctx context.Context) (int, error) {
			open, err := s.OpenCalls(ctx, 5, "r1")
			return len(open["r1"]), err
		},
		"nodes": func(ctx context.Context) (int, error) {
			return pagesOf(ctx, one, func(ctx context.Context, p ledger.Page) (ledger.List[writ.Node], error) {
				return s.Nodes(ctx, ledger.NodeFilter{}, p)
			})
		},
		"resources": func(ctx context.Context) (int, error) {
			return pagesOf(ctx, one, func(ctx context.Context, p ledger.Page) (ledger.List[writ.Resource], error) {
				return s.Resources(ctx, ledger.ResourceFilter{}, p)
			})
		},
		"events": func(ctx context.Context) (int, error) {
			some, more, err := s.Events(ctx, 0, ledger.EventFilter{}, 1)
			if len(some) == 1 && more && some[0].ID == 2 {
				return 1, err
			}
			return len(some), err
		},
		"registrations": func(ctx context.Context) (int, error) { list, err := s.Registrations(ctx); return len(list), err },
		"datacenters":   func(ctx context.Context) (int, error) { list, err := s.Datacenters(ctx); return len(list), err },
	} {
		if n, err := list(ctx); n != 1 || err != nil {
			t.Errorf("%s: %d readable, %v; want 1", name, n, err)
		}
	}

	runs[0].State, runs[0].Ended = writ.RunFailed, time.Now()
	runs[0].Failure = &writ.Failure{Error: *writ.Errorf(writ.CodeRunLost, "lost"), Seq: 1}
	if err := s.Restate(ctx, "dc", "another", runs[0]); err != nil {
		t.Errorf("end a run with an unreadable call: %v", err)
	}
	if calls, err := pagesOf(ctx, one, s.callsOf("r1")); calls != 2 || err != nil {
		t.Errorf("its calls after the end: %d, %v; want 2", calls, err)
	}
}

func (s *spoilt) callsOf(run writ.RunID) func(context.Context, ledger.Page) (ledger.List[writ.Call], error) {
	return func(ctx context.Context, p ledger.Page) (ledger.List[writ.Call], error) { return s.Calls(ctx, run, p) }
}

// pagesOf returns the number of items on all pages of a list.
func pagesOf[T any](
	ctx context.Context, p ledger.Page, list func(context.Context, ledger.Page) (ledger.List[T], error),
) (n int, err error) {
	for {
		page, err := list(ctx, p)
		n += len(page.Items)
		if p.Cursor = page.Next; err != nil || p.Cursor == "" {
			return n, err
		}
	}
}
