package runner_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/supervisor/nodes"
)

func TestRemovedNodeExitsAndStaysDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		n := s.fresh(nil)
		quiet(5 * time.Second)
		s.setAdmission(writ.AdmissionRemoved)
		err := <-n.ended
		n.ended <- nil
		if writ.CodeOf(err) != writ.CodeNodeRejected || writ.AsError(err).Code.Info().Exit != writ.ExitRemoved {
			t.Fatalf("the runner ended with %v", err)
		}
		n.stop()
		again := s.start(n.dir, n.host, nil)
		s.closeAPI(1 << 30) // the node knows without asking
		if err := <-again.ended; writ.CodeOf(err) != writ.CodeNodeRejected {
			t.Errorf("the next runner ended with %v", err)
		}
		again.ended <- nil
	})
}

// An answer that is unsigned, or signed for another request, node or purpose, shuts no node down.
func TestOnlyTheSignatureOfItsSupervisorEndsANode(t *testing.T) {
	for name, lie := range map[string]func(s *fixture){
		"an answer without signature": func(s *fixture) {
			s.account = func(writ.NodeID) ([]byte, error) {
				return nil, writ.Errorf(writ.CodeNodeRejected, "the node was removed here")
			}
		},
		"another key": func(s *fixture) { s.setAdmission(writ.AdmissionRemoved); s.setKey(newKey()) },
		"another question": func(s *fixture) {
			s.setAdmission(writ.AdmissionRemoved)
			s.spoil = func(m *nodes.Membership) { m.Nonce = make([]byte, identity.NonceSize) }
		},
		"another node": func(s *fixture) {
			s.setAdmission(writ.AdmissionRemoved)
			s.spoil = func(m *nodes.Membership) { m.Node = writ.NodeID(writ.NewUUID()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				n := s.fresh(nil)
				quiet(5 * time.Second)
				lie(s)
				_, _, _ = n.member.Login(s)(t.Context(), true)
				quiet(5 * time.Minute)
				select {
				case err := <-n.ended:
					n.ended <- nil
					t.Errorf("the node ended: %v", err)
				default:
				}
			})
		})
	}
}

// A node that the queue refuses asks immediately, and only the answer counts.
func TestRefusedNodeChecksItsMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		n := s.fresh(nil)
		n.hang("long") // a running job does not delay the exit of a removed node
		long := s.job(1, "volume.create", "long", nil)
		n.push(long)
		quiet(5 * time.Second)
		if !n.active(long.JobKey) {
			t.Fatal("the job is not under way")
		}
		s.setAdmission(writ.AdmissionRemoved)
		s.account = func(writ.NodeID) ([]byte, error) {
			return nil, writ.Errorf(writ.CodeNodeRejected, "the node was removed here")
		}
		began := time.Now()
		login := n.member.Login(s)
		_, _, _ = login(t.Context(), true)
		// Refused connections also wait until they may ask again, and the exit of the node waits for them.
		var waiting sync.WaitGroup
		for range 5 {
			waiting.Go(func() {
				if _, _, err := login(t.Context(), true); writ.CodeOf(err) != writ.CodeNodeRejected {
					t.Errorf("a connection that waited ends with %v", err)
				}
			})
		}
		waiting.Wait()
		err := <-n.ended
		n.ended <- nil
		if took := time.Since(began); writ.CodeOf(err) != writ.CodeNodeRejected || took > 5*time.Second {
			t.Errorf("it ended after %s with %v", took, err)
		}
	})
}

// A queue without accounts refuses no node. A removed node still learns of it within seconds.
func TestNodeWithoutAccountAsksMoreOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		n := s.fresh(nil)
		if name, _, err := n.member.Login(s)(t.Context(), false); name != "" || err != nil {
			t.Fatalf("it has the account %q, %v", name, err)
		}
		quiet(10 * time.Minute)
		s.setAdmission(writ.AdmissionRemoved)
		began := time.Now()
		err := <-n.ended
		n.ended <- nil
		if took := time.Since(began); writ.CodeOf(err) != writ.CodeNodeRejected || took > 10*time.Second {
			t.Errorf("it ended after %s with %v", took, err)
		}
	})
}

// An answer about the account must not count as one about the membership.
func TestOtherEnvelopeDecidesNoMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		n := s.fresh(nil)
		s.standing = envelope.Welcome
		s.setAdmission(writ.AdmissionRemoved)
		quiet(5 * time.Minute)
		select {
		case err := <-n.ended:
			n.ended <- nil
			t.Errorf("the node ended: %v", err)
		default:
		}
	})
}

// A node obeys an epoch forever, so an impossible epoch must not block it, even with a valid signature.
//
// Promise: Admission of nodes: A network attacker cannot change the join answer of a node, and the node verifies the
// whole answer before it stores any part.
// How: The supervisor signs the welcome with both nonces, the node's key and the digest of the newest roster; an
// epoch more than a year ahead is refused.
// Also: TestInvalidEpochIsNotFollowed, TestAWelcomeCannotBeChangedInTransit,
// TestInvalidWelcomeIsRefused, TestANodeJoinsWithTheNewestRosterOnly.
func TestInvalidEpochDoesNotBlockNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		n := s.fresh(nil)
		quiet(5 * time.Second)
		n.tell(writ.Control{Epoch: 9e18})
		n.push(n.job(1, "volume.create", "data", nil))
		quiet(5 * time.Second)
		if got := n.lastBeat().Epoch; got > 1000 {
			t.Errorf("the node obeys epoch %d", got)
		}
		if acted := n.counted("jobs"); acted != 1 {
			t.Errorf("it acted %g times", acted)
		}
	})
}
