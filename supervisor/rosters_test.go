package supervisor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/chain"
	"writ/runner/queue"
	"writ/supervisor/journal"
)

// cutKey is the context key of the function that cuts the link of a request.
type cutKey struct{}

// cutting is a queue that cuts the link of a request as soon as the request sends a message to a node.
type cutting struct{ queue.Queue }

func (q cutting) Send(ctx context.Context, stream queue.Stream, body []byte) error {
	if cut, linked := ctx.Value(cutKey{}).(context.CancelFunc); linked {
		cut()
	}
	return q.Queue.Send(ctx, stream, body)
}

// The link that delivers a roster is cut as soon as the roster is on disk. When the roster arrives again, it is already
// known.
func TestRevocationOutlivesItsLink(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCluster(t)
		s.way = cutting{s.queue}
		s.start()
		s.join("n1", slowly(2*time.Minute))
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		s.revoke()
		link, cut := context.WithCancel(t.Context())
		if version, err := s.AdoptRosters(context.WithValue(link, cutKey{}, cut), s.rosters); err != nil || version != 2 || link.Err() == nil {
			t.Fatalf("AdoptRosters = %d, %v, and the link: %v", version, err, link.Err())
		}
		if version, err := s.AdoptRosters(t.Context(), s.rosters); err != nil || version != 2 {
			t.Fatalf("AdoptRosters again = %d, %v", version, err)
		}
		began := time.Now()
		s.wantState(id, writ.RunCancelled)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the run was cancelled after %s", took)
		}
	})
}

// The journal loses all roster texts that a start does not need.
func TestSupervisorStartReadsFewRosters(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		for _, version := range []int{2, 10, 2000} {
			next, err := s.Roster().Successor(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			var skipped []writ.Digest
			for v := next.Version; v < version; v++ {
				skipped = append(skipped, writ.DigestOf(fmt.Append(nil, "version ", v)))
			}
			if len(skipped) > 0 {
				next.Version, next.Previous = version, skipped[len(skipped)-1]
				next.History = chain.History(next.History, skipped...)
			}
			signed, err := identity.SignRoster(next, s.person)
			if err != nil {
				t.Fatal(err)
			}
			if adopted, err := s.AdoptRosters(t.Context(), [][]byte{chain.Join(skipped, signed)}); err != nil || adopted != version {
				t.Fatalf("AdoptRosters = %d, %v", adopted, err)
			}
			s.again(func() { s.tamper(`DELETE FROM rosters WHERE version NOT IN (1, $1)`, version) })
			if r := s.Roster(); r.Version != version || len(r.Chain().Entries(0)) != version {
				t.Errorf("with %d versions, the supervisor started with version %d", version, r.Version)
			}
		}
	})
}

// A datacenter without a reachable coordinator logs that its roster expires soon.
func TestSupervisorLogsRosterExpiry(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		const warning = "version 1 of the roster expires on"
		time.Sleep(time.Minute)
		if logs := s.logs.String(); strings.Contains(logs, warning) {
			t.Errorf("premature warning: %s", logs)
		}
		s.clock.set(identity.RosterValidity - 29*24*time.Hour)
		time.Sleep(125 * time.Minute)
		if n := strings.Count(s.logs.String(), warning); n != 1 {
			t.Errorf("warning logged %d times, want 1", n)
		}
	})
}

// setBody replaces the row of a run in the journal, and returns the old row.
func (s *sim) setBody(id writ.RunID, body []byte) (before []byte) {
	s.t.Helper()
	err := s.journal.Write(s.t.Context(), func(tx *journal.Tx) error {
		if err := tx.QueryRowContext(s.t.Context(), `SELECT body FROM runs WHERE id = $1`, string(id)).Scan(&before); err != nil {
			return err
		}
		_, err := tx.ExecContext(s.t.Context(), `UPDATE runs SET body = $2 WHERE id = $1`, string(id), body)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return before
}

func TestUnreadableRunBlocksNoOtherCheck(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(2*time.Minute))
		unread, other := s.submit(oneVolume), s.submit(webScript)
		s.awaitCall(unread, 1, writ.CallRunning)
		s.awaitCall(other, 1, writ.CallRunning)
		body := s.setBody(unread, []byte("\xff"))
		s.revoke()
		if _, err := s.AdoptRosters(t.Context(), s.rosters); err != nil {
			t.Fatal(err)
		}
		s.wantState(other, writ.RunCancelled)
		s.setBody(unread, body)
		began := time.Now()
		s.wantState(unread, writ.RunCancelled)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the run was cancelled after %s", took)
		}
	})
}
