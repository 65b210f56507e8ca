package supervisor_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

// pendingNode starts a node that waits for admission, and returns its id.
func pendingNode(s *sim, name string) (n *testNode, id writ.NodeID) {
	s.t.Helper()
	n = &testNode{sim: s, name: name, key: newKey(s.t)}
	welcome, err := n.claim(identity.Token{})
	if err != nil || welcome.Admission != writ.AdmissionPending {
		s.t.Fatalf("claim = %+v, %v, want pending", welcome, err)
	}
	return n, welcome.Node
}

func (s *sim) decision(id writ.NodeID, decision string) error {
	s.t.Helper()
	_, err := s.Decide(s.t.Context(), s.sign(s.statement("node/"+string(id), decision)))
	return err
}

// A stranger without a token repeatedly requests the name of a node before that node joins.
//
// Promise: Admission of nodes: A client without a token can neither take the name of a node nor prevent a node from
// joining.
// How: Admission uses the id derived from the key; only admitted nodes own names; a token displaces a waiting node.
// Also: TestStatementAdmitsOnlyItsKey,
// TestRejectedOrRemovedNodeFreesItsName.
func TestClientWithoutTokenTakesNoName(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		stranger, strange := pendingNode(s, "web1")
		pendingNode(s, "web1")
		honest := &testNode{sim: s, name: "web1", key: newKey(t)}
		welcome, err := honest.claim(s.token())
		if err != nil || welcome.Admission != writ.AdmissionApproved || welcome.Name != "web1" {
			t.Fatalf("claim with a token = %+v, %v, want approved", welcome, err)
		}
		if err := s.decision(strange, "approve"); writ.CodeOf(err) != writ.CodeConflict || writ.AsError(err).Hint == "" {
			t.Errorf("approval of a second web1: %v, want CONFLICT with a hint", err)
		}
		if _, err := stranger.claim(identity.Token{}); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("claim of the name of an admitted node: %v, want CONFLICT", err)
		}
	})
}

func TestStatementAdmitsOnlyItsKey(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		stranger, _ := pendingNode(s, "web1")
		honest, id := pendingNode(s, "web1")
		if err := s.decision(id, "approve"); err != nil {
			t.Fatal(err)
		}
		if w, err := honest.claim(identity.Token{}); err != nil || w.Admission != writ.AdmissionApproved || w.Node != id {
			t.Errorf("claim of the approved node = %+v, %v", w, err)
		}
		if w, err := stranger.claim(identity.Token{}); err == nil {
			t.Errorf("claim of the other node = %+v, want an error", w)
		}
	})
}

// A node that waits for approval may send another token. It uses that token once, even if it sends it again.
func TestPendingNodeSpendsSecondTokenOnce(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		next, err := s.roster.Successor(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		next.Datacenter(theDatacenter).ManualApproval = true
		s.adopt(next)
		if _, err := s.AdoptRosters(t.Context(), s.rosters); err != nil {
			t.Fatal(err)
		}
		n := &testNode{sim: s, name: "web1", key: newKey(t)}
		first, second := s.token(), s.token()
		var id writ.NodeID
		for i, token := range []identity.Token{first, second, second} { // the last claim repeats one whose answer was lost
			w, err := n.claim(token)
			if err != nil || w.Admission != writ.AdmissionPending {
				t.Fatalf("claim %d = %+v, %v, want pending", i, w, err)
			}
			id = w.Node
		}
		other := &testNode{sim: s, name: "web2", key: newKey(t)}
		if w, err := other.claim(second); writ.CodeOf(err) != writ.CodeTokenSpent {
			t.Errorf("claim of another node with the second token = %+v, %v, want TOKEN_SPENT", w, err)
		}
		if err := s.decision(id, "approve"); err != nil {
			t.Fatal(err)
		}
		if w, err := n.claim(second); err != nil || w.Admission != writ.AdmissionApproved {
			t.Errorf("claim after the approval = %+v, %v", w, err)
		}
	})
}

func TestRejectedOrRemovedNodeFreesItsName(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		rejected, id := pendingNode(s, "web1")
		if err := s.decision(id, "reject"); err != nil {
			t.Fatal(err)
		}
		if w, err := rejected.claim(identity.Token{}); err != nil || w.Admission != writ.AdmissionRejected {
			t.Errorf("claim of the rejected node = %+v, %v", w, err)
		}
		for range 2 {
			n := &testNode{sim: s, name: "web1", key: newKey(t)}
			w, err := n.claim(s.token())
			if err != nil || w.Admission != writ.AdmissionApproved {
				t.Fatalf("claim of the free name = %+v, %v", w, err)
			}
			if err := s.decision(w.Node, "remove"); err != nil {
				t.Fatal(err)
			}
			again := s.token()
			if w, err := n.claim(again); err != nil || w.Admission != writ.AdmissionRemoved {
				t.Errorf("claim of the removed node = %+v, %v", w, err)
			}
			other := &testNode{sim: s, name: "web2", key: newKey(t)} // the removed node did not spend the token
			if w, err := other.claim(again); err != nil || w.Admission != writ.AdmissionApproved {
				t.Errorf("claim of another node with its token = %+v, %v", w, err)
			} else if err := s.decision(w.Node, "remove"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Pending nodes are kept in memory only, so strangers fill neither the journal nor the ledgers of coordinators. The id
// derives from the key, so a person can approve the same node after a restart of the supervisor.
func TestPendingNodesKeepIdsOutsideTheJournal(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		events := func() int {
			all, err := s.journal.Events(t.Context(), 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		s.join("n1")
		before := events()
		for range 10 {
			pendingNode(s, "web1")
		}
		honest, id := pendingNode(s, "web1")
		var stored []*journal.Node
		err := s.journal.Read(t.Context(), func(tx *journal.Tx) (err error) {
			stored, err = tx.Nodes()
			return err
		})
		if err != nil || len(stored) != 1 || events() != before {
			t.Errorf("%d nodes and %d new events in the journal, %v; want 1 and 0", len(stored), events()-before, err)
		}
		s.halt()
		s.start()
		if w, err := honest.claim(identity.Token{}); err != nil || w.Node != id {
			t.Errorf("id before the restart = %s, claim after it = %+v, %v", id, w, err)
		}
		if err := s.decision(id, "approve"); err != nil {
			t.Error(err)
		}
	})
}

// The fields of a claim may differ from those of the hello, so the claim is checked again.
func TestClaimFieldsAreChecked(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		for what, change := range map[string]func(joiner *identity.Joiner){
			"no name":             func(j *identity.Joiner) { j.Name = "" },
			"another column":      func(j *identity.Joiner) { j.Name = "~web1" },
			"a very long name":    func(j *identity.Joiner) { j.Name = strings.Repeat("a", 10_000) },
			"a very long age key": func(j *identity.Joiner) { j.AgeKey = strings.Repeat("a", 10_000) },
		} {
			for _, token := range []identity.Token{{}, s.token()} {
				n := &testNode{sim: s, name: "web1", key: newKey(t), pretend: change}
				if welcome, err := n.claim(token); writ.CodeOf(err) != writ.CodeBadRequest {
					t.Errorf("%s, token %q: %+v, %v; want BAD_REQUEST", what, token.ID, welcome, err)
				}
			}
		}
	})
}

// The transaction that admits a node reads its record again, because a decision may have been recorded since the claim
// was checked.
//
// Promise: Admission of nodes: A token cannot admit a node that a person rejects concurrently.
// How: The admitting transaction reads the node's record again.
func TestTokenAdmitsNoNodeDuringItsRejection(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n, id := pendingNode(s, "web1")
		token := s.token()
		held, release := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			err := s.journal.Write(t.Context(), func(*journal.Tx) error {
				close(held)
				<-release
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		<-held
		all.Go(func() {
			if err := s.decision(id, "reject"); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if w, err := n.claim(token); err != nil || w.Admission != writ.AdmissionRejected {
				t.Errorf("claim during the rejection = %+v, %v", w, err)
			}
		})
		synctest.Wait()
		close(release)
		all.Wait()
		s.halt()
		s.start()
		if n := s.Known(id); n == nil || n.Admission != writ.AdmissionRejected {
			t.Errorf("node after a restart = %+v", n)
		}
		other := &testNode{sim: s, name: "web2", key: newKey(t)}
		if w, err := other.claim(token); err != nil || w.Admission != writ.AdmissionApproved {
			t.Errorf("claim with the unused token = %+v, %v", w, err)
		}
	})
}
