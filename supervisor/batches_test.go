package supervisor_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

// batch has alice sign a batch of serial numbers for two hours, and returns its id and the statement as it was signed.
func (s *sim) batch(most int, serials ...string) (id string, signed []byte) {
	s.t.Helper()
	slices.Sort(serials)
	b := identity.Batch{ID: identity.NewBatchID(), Serials: serials, Most: most, Until: s.clock.now().Add(2 * time.Hour).UTC().Truncate(time.Second)}
	statement := s.statement("", "")
	b.Statement(statement)
	statement.Reason = "rack 7"
	signed = s.sign(statement)
	if _, err := s.Decide(s.t.Context(), signed); err != nil {
		s.t.Fatal(err)
	}
	return b.ID, signed
}

// machine is a node without a token whose machine has a serial number.
func (s *sim) machine(name, serial string) *testNode {
	return &testNode{sim: s, name: name, key: newKey(s.t), serial: serial}
}

// asksAs has a node ask to be admitted, and fails the test unless it is this.
func (n *testNode) asksAs(want writ.Admission) nodes.Welcome {
	n.sim.t.Helper()
	w, err := n.claim(identity.Token{})
	if err != nil || w.Admission != want {
		n.sim.t.Errorf("%s with the serial number %s is %s, %v; want %s", n.name, n.serial, w.Admission, err, want)
	}
	return w
}

// listed returns the batches as they are listed.
func (s *sim) listed() []link.Batch {
	s.t.Helper()
	said, err := s.Ask(s.t.Context(), link.VerbBatches, link.Batches{})
	list, ok := said.([]link.Batch)
	if err != nil || !ok {
		s.t.Fatalf("the batches are %v, %v", said, err)
	}
	return list
}

func (s *sim) inForce(change func(r *identity.Roster)) {
	s.t.Helper()
	next, err := s.roster.Successor(time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	change(next)
	s.adopt(next)
	if _, err := s.AdoptRosters(s.t.Context(), s.rosters); err != nil {
		s.t.Fatal(err)
	}
}

// A batch admits nodes whose machines report the numbers that were signed: each number one node, and no more nodes than were signed, also after a
// restart. A node that waits is admitted when it asks again.
//
// Promise: Admission of nodes: A signed list of serial numbers admits the first machine per number, within the signed
// time and count, and never a rejected machine.
// How: The admitting transaction verifies the signed text again and records the number; nodes keep the number that
// they joined with.
// Also: TestSharedSerialNumberAdmitsOneMachine, TestABatchEnds, TestABatchOverrulesNoDecision,
// TestNodeKeepsSerialNumberOfItsJoin, TestNodesOfABatchJoinWithoutACommandForEach,
// TestJoinReportsSerialNumber, TestAMachineStartsFromAnImageAsANode.
func TestBatchAdmitsListedMachines(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		early := s.machine("early", "SN-0002")
		early.asksAs(writ.AdmissionPending)
		id, signed := s.batch(2, "SN-0001", "SN-0002", "SN-0003")
		early.asksAs(writ.AdmissionApproved)
		early.asksAs(writ.AdmissionApproved)
		s.machine("stranger", "SN-0009").asksAs(writ.AdmissionPending)
		s.machine("silent", "").asksAs(writ.AdmissionPending)
		twin := s.machine("twin", "SN-0002")
		twin.asksAs(writ.AdmissionPending)
		first := s.machine("first", "SN-0001")
		at := first.asksAs(writ.AdmissionApproved)
		s.machine("third", "SN-0003").asksAs(writ.AdmissionPending) // two were signed
		if n := s.Known(at.Node); n == nil || len(n.Decided) != 1 || n.Decided[0].Signer != "alice" || !strings.Contains(n.Decided[0].Reason, id) {
			t.Errorf("of the node is known %+v", n)
		}
		s.halt()
		s.start()
		s.machine("third", "SN-0003").asksAs(writ.AdmissionPending)
		s.machine("again", "SN-0001").asksAs(writ.AdmissionPending)
		first.asksAs(writ.AdmissionApproved)
		twin.asksAs(writ.AdmissionPending)
		if _, err := s.Decide(t.Context(), signed); err != nil { // the same statement again changes nothing
			t.Error(err)
		}
		s.machine("third", "SN-0003").asksAs(writ.AdmissionPending)

		got := s.listed()[0]
		if got.ID != id || got.CreatedBy != "alice" || got.Reason != "rack 7" || got.Max != 2 || got.Serials != 3 || got.Void != "" {
			t.Errorf("the batch is listed as %+v", got)
		}
		if len(got.Admitted) != 2 || got.Admitted[0].Name != "early" || got.Admitted[0].Serial != "SN-0002" || got.Admitted[1].Name != "first" {
			t.Errorf("it admitted %+v", got.Admitted)
		}
		contested := slices.IndexFunc(got.Contested, func(n link.BatchNode) bool { return n.Name == "twin" })
		if len(got.Contested) != 2 || contested < 0 || got.Contested[contested].Holder != "early" ||
			got.Contested[contested].Key != sshsig.Fingerprint(twin.key.Public().(ed25519.PublicKey)) {
			t.Errorf("contested are %+v", got.Contested)
		}
		if text, _ := json.Marshal(got); bytes.Contains(text, []byte("SN-0003")) && !strings.Contains(fmt.Sprint(got.Contested), "SN-0003") {
			t.Errorf("a number that is open is listed: %s", text)
		}
	})
}

// Of many machines with one number that ask at the same time one is admitted.
func TestSharedSerialNumberAdmitsOneMachine(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		s.batch(3, "SN-0001", "SN-0002", "SN-0003")
		var all sync.WaitGroup
		var mu sync.Mutex
		admitted := map[string]int{}
		for i := range 24 {
			n := s.machine(fmt.Sprintf("n%02d", i), fmt.Sprintf("SN-000%d", 1+i%3))
			all.Go(func() {
				w, err := n.claim(identity.Token{})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if w.Admission == writ.AdmissionApproved {
					admitted[n.serial]++
				}
			})
		}
		all.Wait()
		for _, serial := range []string{"SN-0001", "SN-0002", "SN-0003"} {
			if admitted[serial] != 1 {
				t.Errorf("%d nodes with the number %s are admitted", admitted[serial], serial)
			}
		}
	})
}

// A batch ends with its time, when it is revoked, and when its signer may not approve nodes any more. A datacenter with manual approval takes none.
func TestABatchEnds(t *testing.T) {
	for name, end := range map[string]func(s *sim, id string){
		"with its time": func(s *sim, _ string) { s.clock.set(2*time.Hour + time.Second) },
		"when it is revoked": func(s *sim, id string) {
			for range 2 { // the second changes nothing
				if _, err := s.Decide(s.t.Context(), s.sign(s.statement("batch/"+id, identity.DecisionRevoke))); err != nil {
					s.t.Fatal(err)
				}
			}
		},
		"with the role of its signer": func(s *sim, _ string) {
			s.inForce(func(r *identity.Roster) {
				r.Bindings = slices.DeleteFunc(r.Bindings, func(b identity.Binding) bool { return b.Principal == "alice" && b.Role == identity.Admin })
			})
		},
		"with the binding of its signer": func(s *sim, _ string) {
			s.inForce(func(r *identity.Roster) {
				for i, b := range r.Bindings {
					if b.Principal == "alice" && b.Role == identity.Admin {
						r.Bindings[i].Expires = s.clock.now().Add(time.Hour).UTC().Truncate(time.Second)
					}
				}
			})
			s.clock.set(time.Hour + time.Minute)
		},
		"with manual approval": func(s *sim, _ string) {
			s.inForce(func(r *identity.Roster) { r.Datacenter(theDatacenter).ManualApproval = true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				id, signed := s.batch(2, "SN-0001", "SN-0002")
				s.machine("first", "SN-0001").asksAs(writ.AdmissionApproved)
				end(s, id)
				late := s.machine("late", "SN-0002")
				late.asksAs(writ.AdmissionPending)
				_, _ = s.Decide(t.Context(), signed) // by a coordinator that kept it
				late.asksAs(writ.AdmissionPending)
				s.halt()
				s.start()
				late.asksAs(writ.AdmissionPending)
				got := s.listed()[0]
				if revoked := name == "when it is revoked"; !got.Revoked.IsZero() != revoked || revoked && got.Until.After(got.Revoked) {
					t.Errorf("that it was revoked is listed as %s, until %s", got.Revoked, got.Until)
				}
				if (got.Void != "") != (name != "with its time" && name != "when it is revoked") || len(got.Admitted) != 1 {
					t.Errorf("it is listed as %+v", got)
				}
			})
		})
	}
}

func TestManualApprovalAllowsNoBatch(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.inForce(func(r *identity.Roster) { r.Datacenter(theDatacenter).ManualApproval = true })
		statement := s.statement("", "")
		identity.Batch{ID: identity.NewBatchID(), Serials: []string{"SN-0001"}, Most: 1, Until: statement.Created.Add(time.Hour)}.Statement(statement)
		if _, err := s.Decide(t.Context(), s.sign(statement)); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("a batch in a datacenter with manual approval: %v", err)
		}
	})
}

// What a person decided about a machine counts more than a batch: one that was rejected stays rejected, its number admits no other machine by a
// batch of before, and a number that an admitted node has admits none by any batch.
func TestABatchOverrulesNoDecision(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.batch(3, "SN-0001", "SN-0002", "SN-0003")
		s.clock.set(3 * time.Hour) // the first is over
		rejected, owner := s.machine("rejected", "SN-0001"), s.machine("owner", "SN-0002")
		at := rejected.asksAs(writ.AdmissionPending)
		if err := s.decision(owner.asksAs(writ.AdmissionPending).Node, "approve"); err != nil {
			t.Fatal(err)
		}
		s.clock.set(3*time.Hour + time.Second)
		s.batch(3, "SN-0001", "SN-0002", "SN-0004")
		if err := s.decision(at.Node, "reject"); err != nil {
			t.Fatal(err)
		}
		rejected.asksAs(writ.AdmissionRejected)
		rejected.serial = "SN-0004"
		rejected.asksAs(writ.AdmissionRejected)
		s.machine("other", "SN-0001").asksAs(writ.AdmissionPending)
		s.machine("thief", "SN-0002").asksAs(writ.AdmissionPending)
		s.clock.set(3*time.Hour + 2*time.Second)
		s.batch(1, "SN-0001") // whose signer could know of it
		s.machine("another", "SN-0001").asksAs(writ.AdmissionApproved)
	})
}

// What a machine says of itself later changes nothing: neither can an admitted node take the number of another one, nor free its own.
func TestNodeKeepsSerialNumberOfItsJoin(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.batch(2, "SN-0001", "SN-0002")
		first := s.machine("first", "SN-0001")
		first.asksAs(writ.AdmissionApproved)
		first.serial = "SN-0002"
		first.asksAs(writ.AdmissionApproved)
		s.machine("twin", "SN-0001").asksAs(writ.AdmissionPending)
		s.machine("second", "SN-0002").asksAs(writ.AdmissionApproved)
		waits := s.machine("waits", "SN-0008")
		waits.asksAs(writ.AdmissionPending)
		waits.serial = "SN-0001" // one that is used
		waits.asksAs(writ.AdmissionPending)
	})
}

// claimAt has a node ask at the node API from an address.
func (n *testNode) claimAt(address string) nodes.Welcome {
	n.sim.t.Helper()
	claim, err := n.newClaim(identity.Token{})
	if err != nil {
		n.sim.t.Fatal(err)
	}
	body, err := json.Marshal(claim)
	if err != nil {
		n.sim.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(n.sim.t.Context(), http.MethodPost, "/v1/join/claim", bytes.NewReader(body))
	r.RemoteAddr = address + ":4711"
	answer := httptest.NewRecorder()
	nodes.Handler(n.sim.Supervisor, n.sim.Supervisor, n.sim.Log).ServeHTTP(answer, r)
	var w nodes.Welcome
	if err := json.Unmarshal(answer.Body.Bytes(), &w); err != nil || answer.Code != http.StatusOK {
		n.sim.t.Fatalf("%d, %s", answer.Code, answer.Body)
	}
	return w
}

// A stranger who guesses serial numbers has few guesses an hour from each network, and keeps no other machine out.
//
// Promise: Admission of nodes: An address can guess at most 50 serial numbers and then one a minute, and the list of
// batches reveals no open number.
// How: The list contains numbers that were used or that two machines report.
// Also: TestBatchAdmitsListedMachines.
func TestGuessesOfSerialNumbersAreFew(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		var serials []string
		for i := range 100 {
			serials = append(serials, fmt.Sprintf("SN-%04d", 1000+i))
		}
		s.batch(100, serials...)
		for i := range 60 { // many machines behind one guess each, or one that says something else each time
			s.machine(fmt.Sprintf("guess%d", i), fmt.Sprintf("SN-%04d", 2000+i)).claimAt("192.0.2.1")
		}
		thief := s.machine("thief", "SN-1000")
		if w := thief.claimAt("192.0.2.1"); w.Admission != writ.AdmissionPending {
			t.Errorf("a stranger who guessed 60 times is %s", w.Admission)
		}
		if w := s.machine("honest", "SN-1000").claimAt("192.0.2.2"); w.Admission != writ.AdmissionApproved {
			t.Errorf("a machine of another network is %s", w.Admission)
		}
		patient := s.machine("patient", "SN-1001")
		for range 10 {
			patient.claimAt("192.0.2.1")
		}
		time.Sleep(2 * time.Minute)
		if w := patient.claimAt("192.0.2.1"); w.Admission != writ.AdmissionApproved {
			t.Errorf("two minutes later a machine of the stranger's network is %s", w.Admission)
		}
	})
}

// A database that puts back what it had of a batch before, or makes one up, has no node admitted.
func TestForgedBatchAdmitsNoNode(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		id, signed := s.batch(1, "SN-0001", "SN-0002")
		var before []byte
		s.attack(func(tx *journal.Tx) error {
			return tx.QueryRowContext(t.Context(), `SELECT body FROM batches WHERE id = $1`, id).Scan(&before)
		})
		s.machine("first", "SN-0001").asksAs(writ.AdmissionApproved)
		s.attack(func(tx *journal.Tx) error {
			if _, err := tx.ExecContext(t.Context(), `UPDATE batches SET body = $2 WHERE id = $1`, id, before); err != nil {
				return err
			}
			return tx.PutNodeBatch(&journal.NodeBatch{ID: "aaaaaaaaaaaaa", Signed: signed, Made: s.clock.now(), Until: s.clock.now().Add(time.Hour)})
		})
		for _, serial := range []string{"SN-0001", "SN-0002"} {
			s.machine("late", serial).asksAs(writ.AdmissionPending)
		}
	})
}
