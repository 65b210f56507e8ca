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

// batch signs a batch of serial numbers as alice, valid for two hours. It returns the id and the signed statement.
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

// machine returns a node without a token on a machine with a serial number.
func (s *sim) machine(name, serial string) *testNode {
	return &testNode{sim: s, name: name, key: newKey(s.t), serial: serial}
}

// wantAdmission requests admission for a node and checks the answer.
func (n *testNode) wantAdmission(want writ.Admission) nodes.Welcome {
	n.sim.t.Helper()
	w, err := n.claim(identity.Token{})
	if err != nil || w.Admission != want {
		n.sim.t.Errorf("admission of %s with serial number %s = %s, %v; want %s", n.name, n.serial, w.Admission, err, want)
	}
	return w
}

// batches returns the list of batches.
func (s *sim) batches() []link.Batch {
	s.t.Helper()
	answer, err := s.Ask(s.t.Context(), link.VerbBatches, link.Batches{})
	list, ok := answer.([]link.Batch)
	if err != nil || !ok {
		s.t.Fatalf("list of batches = %v, %v", answer, err)
	}
	return list
}

func (s *sim) changeRoster(change func(r *identity.Roster)) {
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

// A batch admits one node per signed serial number, and at most the signed number of nodes, also after a restart. A
// node that asked before the batch existed is admitted when it asks again.
//
// Promise: Admission of nodes: A signed list of serial numbers admits the first machine per number, within the signed
// time and count, and never a rejected machine.
// How: The admitting transaction verifies the signed text again and records the number; nodes keep the number that
// they joined with.
// Also: TestSharedSerialNumberAdmitsOneMachine, TestBatchEnds, TestBatchOverrulesNoDecision,
// TestNodeKeepsSerialNumberOfItsJoin, TestNodesOfABatchJoinWithoutACommandForEach,
// TestJoinReportsSerialNumber, TestAMachineStartsFromAnImageAsANode.
func TestBatchAdmitsListedMachines(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		early := s.machine("early", "SN-0002")
		early.wantAdmission(writ.AdmissionPending)
		id, signed := s.batch(2, "SN-0001", "SN-0002", "SN-0003")
		early.wantAdmission(writ.AdmissionApproved)
		early.wantAdmission(writ.AdmissionApproved)
		s.machine("stranger", "SN-0009").wantAdmission(writ.AdmissionPending)
		s.machine("silent", "").wantAdmission(writ.AdmissionPending)
		twin := s.machine("twin", "SN-0002")
		twin.wantAdmission(writ.AdmissionPending)
		first := s.machine("first", "SN-0001")
		at := first.wantAdmission(writ.AdmissionApproved)
		s.machine("third", "SN-0003").wantAdmission(writ.AdmissionPending) // the batch admits two nodes
		if n := s.Known(at.Node); n == nil || len(n.Decided) != 1 || n.Decided[0].Signer != "alice" || !strings.Contains(n.Decided[0].Reason, id) {
			t.Errorf("node = %+v, want one decision by alice that names the batch", n)
		}
		s.halt()
		s.start()
		s.machine("third", "SN-0003").wantAdmission(writ.AdmissionPending)
		s.machine("again", "SN-0001").wantAdmission(writ.AdmissionPending)
		first.wantAdmission(writ.AdmissionApproved)
		twin.wantAdmission(writ.AdmissionPending)
		if _, err := s.Decide(t.Context(), signed); err != nil { // a repeated statement has no effect
			t.Error(err)
		}
		s.machine("third", "SN-0003").wantAdmission(writ.AdmissionPending)

		got := s.batches()[0]
		if got.ID != id || got.CreatedBy != "alice" || got.Reason != "rack 7" || got.Max != 2 || got.Serials != 3 || got.Void != "" {
			t.Errorf("listed batch = %+v", got)
		}
		if len(got.Admitted) != 2 || got.Admitted[0].Name != "early" || got.Admitted[0].Serial != "SN-0002" || got.Admitted[1].Name != "first" {
			t.Errorf("admitted = %+v", got.Admitted)
		}
		contested := slices.IndexFunc(got.Contested, func(n link.BatchNode) bool { return n.Name == "twin" })
		if len(got.Contested) != 2 || contested < 0 || got.Contested[contested].Holder != "early" ||
			got.Contested[contested].Key != sshsig.Fingerprint(twin.key.Public().(ed25519.PublicKey)) {
			t.Errorf("contested = %+v", got.Contested)
		}
		if text, _ := json.Marshal(got); bytes.Contains(text, []byte("SN-0003")) && !strings.Contains(fmt.Sprint(got.Contested), "SN-0003") {
			t.Errorf("the list reveals an unused number: %s", text)
		}
	})
}

// If many machines with one serial number ask at the same time, exactly one of them is admitted.
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
				t.Errorf("%d nodes with serial number %s admitted, want 1", admitted[serial], serial)
			}
		}
	})
}

// A batch ends at its time, when it is revoked, and when its signer loses the right to approve nodes. A datacenter with
// manual approval accepts no batch.
func TestBatchEnds(t *testing.T) {
	for name, end := range map[string]func(s *sim, id string){
		"with its time": func(s *sim, _ string) { s.clock.set(2*time.Hour + time.Second) },
		"when it is revoked": func(s *sim, id string) {
			for range 2 { // the second has no effect
				if _, err := s.Decide(s.t.Context(), s.sign(s.statement("batch/"+id, identity.DecisionRevoke))); err != nil {
					s.t.Fatal(err)
				}
			}
		},
		"with the role of its signer": func(s *sim, _ string) {
			s.changeRoster(func(r *identity.Roster) {
				r.Bindings = slices.DeleteFunc(r.Bindings, func(b identity.Binding) bool { return b.Principal == "alice" && b.Role == identity.Admin })
			})
		},
		"with the binding of its signer": func(s *sim, _ string) {
			s.changeRoster(func(r *identity.Roster) {
				for i, b := range r.Bindings {
					if b.Principal == "alice" && b.Role == identity.Admin {
						r.Bindings[i].Expires = s.clock.now().Add(time.Hour).UTC().Truncate(time.Second)
					}
				}
			})
			s.clock.set(time.Hour + time.Minute)
		},
		"with manual approval": func(s *sim, _ string) {
			s.changeRoster(func(r *identity.Roster) { r.Datacenter(theDatacenter).ManualApproval = true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				id, signed := s.batch(2, "SN-0001", "SN-0002")
				s.machine("first", "SN-0001").wantAdmission(writ.AdmissionApproved)
				end(s, id)
				late := s.machine("late", "SN-0002")
				late.wantAdmission(writ.AdmissionPending)
				_, _ = s.Decide(t.Context(), signed) // a coordinator sends the statement again
				late.wantAdmission(writ.AdmissionPending)
				s.halt()
				s.start()
				late.wantAdmission(writ.AdmissionPending)
				got := s.batches()[0]
				if revoked := name == "when it is revoked"; !got.Revoked.IsZero() != revoked || revoked && got.Until.After(got.Revoked) {
					t.Errorf("listed as revoked at %s, until %s", got.Revoked, got.Until)
				}
				if (got.Void != "") != (name != "with its time" && name != "when it is revoked") || len(got.Admitted) != 1 {
					t.Errorf("listed as %+v", got)
				}
			})
		})
	}
}

func TestManualApprovalAllowsNoBatch(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.changeRoster(func(r *identity.Roster) { r.Datacenter(theDatacenter).ManualApproval = true })
		statement := s.statement("", "")
		identity.Batch{ID: identity.NewBatchID(), Serials: []string{"SN-0001"}, Most: 1, Until: statement.Created.Add(time.Hour)}.Statement(statement)
		if _, err := s.Decide(t.Context(), s.sign(statement)); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("batch in a datacenter with manual approval: %v, want CONFLICT", err)
		}
	})
}

// A decision of a person about a machine overrides a batch. A rejected machine stays rejected, and its number admits no
// other machine by an earlier batch. The number of an admitted node admits no other machine by any batch.
func TestBatchOverrulesNoDecision(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.batch(3, "SN-0001", "SN-0002", "SN-0003")
		s.clock.set(3 * time.Hour) // the first batch has ended
		rejected, owner := s.machine("rejected", "SN-0001"), s.machine("owner", "SN-0002")
		at := rejected.wantAdmission(writ.AdmissionPending)
		if err := s.decision(owner.wantAdmission(writ.AdmissionPending).Node, "approve"); err != nil {
			t.Fatal(err)
		}
		s.clock.set(3*time.Hour + time.Second)
		s.batch(3, "SN-0001", "SN-0002", "SN-0004")
		if err := s.decision(at.Node, "reject"); err != nil {
			t.Fatal(err)
		}
		rejected.wantAdmission(writ.AdmissionRejected)
		rejected.serial = "SN-0004"
		rejected.wantAdmission(writ.AdmissionRejected)
		s.machine("other", "SN-0001").wantAdmission(writ.AdmissionPending)
		s.machine("thief", "SN-0002").wantAdmission(writ.AdmissionPending)
		s.clock.set(3*time.Hour + 2*time.Second)
		s.batch(1, "SN-0001") // its signer could know of the rejection
		s.machine("another", "SN-0001").wantAdmission(writ.AdmissionApproved)
	})
}

// Reports after the join change nothing: an admitted node can neither claim another node's serial number nor free its
// own.
func TestNodeKeepsSerialNumberOfItsJoin(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.batch(2, "SN-0001", "SN-0002")
		first := s.machine("first", "SN-0001")
		first.wantAdmission(writ.AdmissionApproved)
		first.serial = "SN-0002"
		first.wantAdmission(writ.AdmissionApproved)
		s.machine("twin", "SN-0001").wantAdmission(writ.AdmissionPending)
		s.machine("second", "SN-0002").wantAdmission(writ.AdmissionApproved)
		waits := s.machine("waits", "SN-0008")
		waits.wantAdmission(writ.AdmissionPending)
		waits.serial = "SN-0001" // a used number
		waits.wantAdmission(writ.AdmissionPending)
	})
}

// claimAt requests admission at the node API from an address.
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

// A stranger has few guesses of serial numbers per hour and network, and does not keep other machines out.
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
		for i := range 60 { // many machines with one guess each, or one machine with changing numbers
			s.machine(fmt.Sprintf("guess%d", i), fmt.Sprintf("SN-%04d", 2000+i)).claimAt("192.0.2.1")
		}
		thief := s.machine("thief", "SN-1000")
		if w := thief.claimAt("192.0.2.1"); w.Admission != writ.AdmissionPending {
			t.Errorf("a stranger after 60 guesses is %s", w.Admission)
		}
		if w := s.machine("honest", "SN-1000").claimAt("192.0.2.2"); w.Admission != writ.AdmissionApproved {
			t.Errorf("a machine in another network is %s", w.Admission)
		}
		patient := s.machine("patient", "SN-1001")
		for range 10 {
			patient.claimAt("192.0.2.1")
		}
		time.Sleep(2 * time.Minute)
		if w := patient.claimAt("192.0.2.1"); w.Admission != writ.AdmissionApproved {
			t.Errorf("a machine in the stranger's network is %s after two minutes", w.Admission)
		}
	})
}

// An attacker with write access to the database restores the earlier row of a batch, or invents a batch. Neither admits
// a node.
func TestForgedBatchAdmitsNoNode(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sim) {
		id, signed := s.batch(1, "SN-0001", "SN-0002")
		var before []byte
		s.attack(func(tx *journal.Tx) error {
			return tx.QueryRowContext(t.Context(), `SELECT body FROM batches WHERE id = $1`, id).Scan(&before)
		})
		s.machine("first", "SN-0001").wantAdmission(writ.AdmissionApproved)
		s.attack(func(tx *journal.Tx) error {
			if _, err := tx.ExecContext(t.Context(), `UPDATE batches SET body = $2 WHERE id = $1`, id, before); err != nil {
				return err
			}
			return tx.PutNodeBatch(&journal.NodeBatch{ID: "aaaaaaaaaaaaa", Signed: signed, Made: s.clock.now(), Until: s.clock.now().Add(time.Hour)})
		})
		for _, serial := range []string{"SN-0001", "SN-0002"} {
			s.machine("late", serial).wantAdmission(writ.AdmissionPending)
		}
	})
}
