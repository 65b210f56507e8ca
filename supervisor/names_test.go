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

// asking is a node that asks to be admitted, and its id.
func asking(s *sim, name string) (n *testNode, id writ.NodeID) {
	s.t.Helper()
	n = &testNode{sim: s, name: name, key: newKey(s.t)}
	welcome, err := n.claim(identity.Token{})
	if err != nil || welcome.Admission != writ.AdmissionPending {
		s.t.Fatalf("it asked and got %+v, %v", welcome, err)
	}
	return n, welcome.Node
}

func (s *sim) decision(id writ.NodeID, decision string) error {
	s.t.Helper()
	_, err := s.Decide(s.t.Context(), s.sign(s.statement("node/"+string(id), decision)))
	return err
}

// A stranger without a token asks for a name before the node that is to have it, as often as it likes.
//
// Promise: Admission of nodes: A client without a token can neither take the name of a node nor prevent a node from
// joining.
// How: Admission uses the id derived from the key; only admitted nodes own names; a token displaces a waiting node.
// Also: TestStatementAdmitsOnlyItsKey,
// TestRejectedOrRemovedNodeFreesItsName.
func TestClientWithoutTokenTakesNoName(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		stranger, strange := asking(s, "web1")
		asking(s, "web1")
		honest := &testNode{sim: s, name: "web1", key: newKey(t)}
		welcome, err := honest.claim(s.token())
		if err != nil || welcome.Admission != writ.AdmissionApproved || welcome.Name != "web1" {
			t.Fatalf("the node with the token got %+v, %v", welcome, err)
		}
		if err := s.decision(strange, "approve"); writ.CodeOf(err) != writ.CodeConflict || writ.AsError(err).Hint == "" {
			t.Errorf("a second web1 is approved: %v", err)
		}
		if _, err := stranger.claim(identity.Token{}); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("the stranger asks on for the name of an admitted node: %v", err)
		}
	})
}

func TestStatementAdmitsOnlyItsKey(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		stranger, _ := asking(s, "web1")
		honest, id := asking(s, "web1")
		if err := s.decision(id, "approve"); err != nil {
			t.Fatal(err)
		}
		if w, err := honest.claim(identity.Token{}); err != nil || w.Admission != writ.AdmissionApproved || w.Node != id {
			t.Errorf("the node that was approved got %+v, %v", w, err)
		}
		if w, err := stranger.claim(identity.Token{}); err == nil {
			t.Errorf("the other got %+v", w)
		}
	})
}

// A node that waits for its approval may bring another token. That one counts as used by it, once.
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
		for i, token := range []identity.Token{first, second, second} { // the last answer may be lost
			w, err := n.claim(token)
			if err != nil || w.Admission != writ.AdmissionPending {
				t.Fatalf("claim %d got %+v, %v", i, w, err)
			}
			id = w.Node
		}
		other := &testNode{sim: s, name: "web2", key: newKey(t)}
		if w, err := other.claim(second); writ.CodeOf(err) != writ.CodeTokenSpent {
			t.Errorf("another node with the second token got %+v, %v", w, err)
		}
		if err := s.decision(id, "approve"); err != nil {
			t.Fatal(err)
		}
		if w, err := n.claim(second); err != nil || w.Admission != writ.AdmissionApproved {
			t.Errorf("once it is approved the node got %+v, %v", w, err)
		}
	})
}

func TestRejectedOrRemovedNodeFreesItsName(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		rejected, id := asking(s, "web1")
		if err := s.decision(id, "reject"); err != nil {
			t.Fatal(err)
		}
		if w, err := rejected.claim(identity.Token{}); err != nil || w.Admission != writ.AdmissionRejected {
			t.Errorf("the rejected node got %+v, %v", w, err)
		}
		for range 2 {
			n := &testNode{sim: s, name: "web1", key: newKey(t)}
			w, err := n.claim(s.token())
			if err != nil || w.Admission != writ.AdmissionApproved {
				t.Fatalf("the name was not free: %+v, %v", w, err)
			}
			if err := s.decision(w.Node, "remove"); err != nil {
				t.Fatal(err)
			}
			again := s.token()
			if w, err := n.claim(again); err != nil || w.Admission != writ.AdmissionRemoved {
				t.Errorf("the removed node got %+v, %v", w, err)
			}
			other := &testNode{sim: s, name: "web2", key: newKey(t)} // the token was not spent for it
			if w, err := other.claim(again); err != nil || w.Admission != writ.AdmissionApproved {
				t.Errorf("its token admitted nobody else: %+v, %v", w, err)
			} else if err := s.decision(w.Node, "remove"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What waits is in memory: strangers fill neither the journal nor the ledgers of coordinators. The id follows from the key, so that a person
// approves the same node after the supervisor began anew.
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
			asking(s, "web1")
		}
		honest, id := asking(s, "web1")
		var stored []*journal.Node
		err := s.journal.Read(t.Context(), func(tx *journal.Tx) (err error) {
			stored, err = tx.Nodes()
			return err
		})
		if err != nil || len(stored) != 1 || events() != before {
			t.Errorf("%d nodes and %d new events are in the journal, %v", len(stored), events()-before, err)
		}
		s.halt()
		s.start()
		if w, err := honest.claim(identity.Token{}); err != nil || w.Node != id {
			t.Errorf("it was %s and is %+v, %v", id, w, err)
		}
		if err := s.decision(id, "approve"); err != nil {
			t.Error(err)
		}
	})
}

// What a joiner says in its claim need not be what it was greeted for: the claim is checked for itself.
func TestAClaimIsCheckedAsTheHelloWas(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		for what, change := range map[string]func(joiner *identity.Joiner){
			"no name":           func(j *identity.Joiner) { j.Name = "" },
			"another column":    func(j *identity.Joiner) { j.Name = "~web1" },
			"a name of a page":  func(j *identity.Joiner) { j.Name = strings.Repeat("a", 10_000) },
			"an age key of one": func(j *identity.Joiner) { j.AgeKey = strings.Repeat("a", 10_000) },
		} {
			for _, token := range []identity.Token{{}, s.token()} {
				n := &testNode{sim: s, name: "web1", key: newKey(t), pretend: change}
				if welcome, err := n.claim(token); writ.CodeOf(err) != writ.CodeBadRequest {
					t.Errorf("%s, with the token %q: %+v, %v", what, token.ID, welcome, err)
				}
			}
		}
	})
}

// The transaction that admits by a token looks again: a decision may have been made since the claim was looked at.
//
// Promise: Admission of nodes: A token cannot admit a node that a person rejects concurrently.
// How: The admitting transaction reads the node's record again.
func TestTokenAdmitsNoNodeDuringItsRejection(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n, id := asking(s, "web1")
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
				t.Errorf("it joined as %+v, %v", w, err)
			}
		})
		synctest.Wait()
		close(release)
		all.Wait()
		s.halt()
		s.start()
		if n := s.Known(id); n == nil || n.Admission != writ.AdmissionRejected {
			t.Errorf("after the next start it is %+v", n)
		}
		other := &testNode{sim: s, name: "web2", key: newKey(t)}
		if w, err := other.claim(token); err != nil || w.Admission != writ.AdmissionApproved {
			t.Errorf("the token was spent: %+v, %v", w, err)
		}
	})
}
