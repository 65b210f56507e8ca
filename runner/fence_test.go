package runner_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/runner"
	"writ/sal"
	"writ/supervisor/nodes"
)

// fenceable is a driver whose resources run until they are fenced.
type fenceable struct {
	*watchful
	stubborn int // number of times that fencing fails
	fenced   []string
	kept     []string // in order of maintenance
}

func newFenceable(n *runner.Runner, h *host) *fenceable {
	f := new(fenceable)
	f.watchful = &watchful{driver: &driver{host: h, module: "machine"}, look: func(_ context.Context, r writ.ResourceID) ([]sal.Drift, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.kept = append(f.kept, r.Name)
		return nil, nil
	}}
	n.Drivers = append(slices.DeleteFunc(n.Drivers, func(d sal.Driver) bool { return d.Describe().Module == "machine" }), f)
	return f
}

func (f *fenceable) Fence(_ context.Context, r writ.ResourceID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stubborn > 0 {
		f.stubborn--
		return errors.New("it does not end")
	}
	f.fenced = append(f.fenced, r.Name)
	return nil
}

func (s *fixture) answers() []nodes.FenceAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.fenced)
}

func (s *fixture) setLost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost, s.admission = true, writ.AdmissionRemoved
}

// rejected waits until the runner has ended with NODE_REJECTED.
func (n *node) rejected() {
	n.Helper()
	err := <-n.ended
	n.ended <- nil
	if writ.CodeOf(err) != writ.CodeNodeRejected {
		n.Errorf("the runner ended with %v", err)
	}
}

var web = writ.ResourceID{Project: shopProject, Kind: writ.KindMachine, Name: "web"}

// A node that worked through a partition stops its resources when it learns of its removal, retries failures, reports
// and exits.
func TestGoneNodeStopsResourcesBeforeExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		var f *fenceable
		dir, h := t.TempDir(), newHost()
		h.things[web] = "uid-of-web"
		s.join(dir)
		n := s.start(dir, h, func(r *runner.Runner) { f = newFenceable(r, h) })
		quiet(5 * time.Second)
		f.stubborn = 2
		s.setLost()
		n.rejected()
		all := s.answers()
		if len(all) != 3 || len(all[0].Open) != 1 || len(all[2].Open) != 0 || len(all[2].Stopped) != 1 || all[2].Stopped[0].UID != "uid-of-web" {
			t.Fatalf("it said %+v", all)
		}
		if all[0].Round >= all[1].Round || all[1].Round >= all[2].Round {
			t.Errorf("its answers are numbered %d, %d and %d", all[0].Round, all[1].Round, all[2].Round)
		}
		if kept := all[2].Kept; len(kept) != 1 || kept[0].Kind != "superseded machine" {
			t.Errorf("kept resources = %+v", kept)
		}
		n.stop()
		again := s.start(n.dir, n.host, func(r *runner.Runner) { newFenceable(r, h) })
		again.rejected()
		if len(s.answers()) != 3 {
			t.Error("a complete answer was sent again")
		}
	})
}

// A restarted host starts no resources before it has learned of its removal.
//
// Promise: Failures: A node signed as lost never works again and stops all its resources when it learns of the loss;
// volumes remain.
// How: It asks with a nonce and obeys its supervisor's signature together with the person's statement; behind a
// partition it stops within about a minute; until then two nodes may run the same resource, so turn the machine off
// first.
// Also: TestGoneNodeStopsResourcesBeforeExit, TestKilledNodeContinuesToStopResources,
// TestOnlySignedLossStopsResources, TestIsolatedNodeStartsItsResources,
// TestReturningLostNodeStopsItsMachine, TestFalselyLostNodeStopsItsResources,
// TestALostNodesMachineRunsOnOneNodeAfterItsReturn.
func TestGoneNodeStartsNoResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		dir, h := t.TempDir(), newHost()
		h.things[web] = "uid-of-web"
		s.join(dir)
		s.setLost()
		s.closeAPI(1) // the second request succeeds
		var f *fenceable
		n := s.start(dir, h, func(r *runner.Runner) { f = newFenceable(r, h) })
		n.rejected()
		if len(f.kept) != 0 || len(f.fenced) != 1 {
			t.Errorf("it looked after %v and fenced %v", f.kept, f.fenced)
		}
	})
}

// An unavailable supervisor does not prevent a host from starting its resources.
func TestIsolatedNodeStartsItsResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		dir, h := t.TempDir(), newHost()
		h.things[web] = "uid-of-web"
		s.join(dir)
		s.closeAPI(1 << 30)
		var f *fenceable
		s.start(dir, h, func(r *runner.Runner) { f = newFenceable(r, h) })
		quiet(15 * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.kept) == 0 {
			t.Error("no resource is maintained")
		}
	})
}

// A runner that was killed while stopping resources continues, whether the supervisor is available or not.
func TestKilledNodeContinuesToStopResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		dir, h := t.TempDir(), newHost()
		h.things[web] = "uid-of-web"
		s.join(dir)
		n := s.start(dir, h, func(r *runner.Runner) { newFenceable(r, h).stubborn = 1 << 30 })
		quiet(5 * time.Second)
		s.setLost()
		for len(s.answers()) == 0 {
			quiet(time.Second)
		}
		n.cancel()
		n.rejected()
		n.stop()
		s.closeAPI(3)
		var f *fenceable
		again := s.start(dir, h, func(r *runner.Runner) { f = newFenceable(r, h) })
		again.rejected()
		if last := s.answers(); len(last[len(last)-1].Open) != 0 || !slices.Contains(f.fenced, "web") {
			t.Errorf("fenced %v, answers %+v", f.fenced, last)
		}
	})
}

// A removed node that is not declared lost keeps its resources running. So does a node whose loss is not validly
// signed: an attacker with the supervisor's key can sign envelopes, but not statements of a person.
func TestOnlySignedLossStopsResources(t *testing.T) {
	misstated := func(change func(s *identity.Statement)) func(s *fixture) {
		return func(s *fixture) {
			s.setLost()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.misstate = change
		}
	}
	for name, lie := range map[string]func(s *fixture){
		"it was removed":  func(s *fixture) { s.setAdmission(writ.AdmissionRemoved) },
		"another purpose": func(s *fixture) { s.setLost(); s.mu.Lock(); s.standing = envelope.Standing; s.mu.Unlock() },
		"by the supervisor alone": func(s *fixture) {
			s.setLost()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.spoil = func(m *nodes.Membership) { m.Lost = nil }
		},
		"by a signer without the right": misstated(func(s *identity.Statement) { s.Signer = "bob" }),
		"of another node":               misstated(func(s *identity.Statement) { s.Subject = "node/0192f6c2-0000-7000-8000-0000000000aa" }),
		"of another key": misstated(func(s *identity.Statement) {
			s.Seen.Fingerprint = sshsig.Fingerprint(newKey().Public().(ed25519.PublicKey))
		}),
		"that it is removed, and no more": misstated(func(s *identity.Statement) { s.Decision = "remove" }),
		"another question": func(s *fixture) {
			s.setLost()
			s.mu.Lock()
			defer s.mu.Unlock()
			asked := 0
			s.spoil = func(m *nodes.Membership) {
				if asked++; asked > 1 { // the removal itself is signed correctly
					m.Nonce = make([]byte, identity.NonceSize)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				dir, h := t.TempDir(), newHost()
				h.things[web] = "uid-of-web"
				s.join(dir)
				var f *fenceable
				n := s.start(dir, h, func(r *runner.Runner) { f = newFenceable(r, h) })
				quiet(5 * time.Second)
				lie(s)
				quiet(5 * time.Minute)
				f.mu.Lock()
				if len(f.fenced) > 0 {
					t.Errorf("it fenced %v", f.fenced)
				}
				f.mu.Unlock()
				n.cancel()
				if err := <-n.ended; err != nil && writ.CodeOf(err) != writ.CodeNodeRejected {
					t.Errorf("the runner ended with %v", err)
				}
				n.ended <- nil
			})
		})
	}
}
