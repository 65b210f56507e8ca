package supervisor_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// opened opens a proof of the sim's supervisor.
func (s *sim) opened(proof []byte) writ.Answer {
	s.t.Helper()
	records, _, err := envelope.Open[writ.Answer](envelope.Answer, proof, envelope.Only(s.key.Public().(ed25519.PublicKey)))
	if err != nil || len(records) != 1 {
		s.t.Fatalf("the proof holds %d answers: %v", len(records), err)
	}
	return records[0]
}

// standingOf asks for the standing of a node, and opens it.
func (s *sim) standingOf(n *testNode) link.NodeStanding {
	s.t.Helper()
	answer, err := s.Ask(s.t.Context(), link.VerbNodeStanding, link.StandingOfNode{Node: n.id, Nonce: make([]byte, writ.ClientNonce)})
	if err != nil {
		s.t.Fatal(err)
	}
	records, _, err := envelope.Open[link.NodeStanding](envelope.NodeStanding, answer.(link.StandingAnswer).Proof, envelope.Only(s.key.Public().(ed25519.PublicKey)))
	if err != nil || len(records) != 1 {
		s.t.Fatalf("the proof holds %d standings: %v", len(records), err)
	}
	return records[0]
}

func TestTheStateOfANodeIsSignedForEachReader(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		want := link.NodeStanding{
			Cluster: s.Pin, Datacenter: theDatacenter, Node: n.id, Name: "n1", Key: sshsig.Fingerprint(n.key.Public().(ed25519.PublicKey)),
			Admission: writ.AdmissionApproved, Nonce: make([]byte, writ.ClientNonce),
		}
		for _, step := range []struct {
			decision  string
			admission writ.Admission
			stands    writ.Scheduling
		}{
			{"cordon", writ.AdmissionApproved, writ.SchedulingCordoned}, {"uncordon", writ.AdmissionApproved, writ.SchedulingOpen},
			{"remove", writ.AdmissionRemoved, writ.SchedulingOpen},
		} {
			revision := s.standingOf(n).Revision
			s.decide(n.id, step.decision)
			got := s.standingOf(n)
			want.Admission, want.Scheduling, want.Revision, want.Time = step.admission, step.stands, revision+1, got.Time
			if diff := cmp.Diff(want, got); diff != "" || got.Time == 0 {
				t.Errorf("after %s: %s", step.decision, diff)
			}
		}
		for what, params := range map[writ.Code]link.StandingOfNode{
			writ.CodeBadRequest: {Node: n.id, Nonce: []byte("short")},
			writ.CodeNotFound:   {Node: "n2", Nonce: make([]byte, writ.ClientNonce)},
		} {
			if answer, err := s.Ask(t.Context(), link.VerbNodeStanding, params); writ.CodeOf(err) != what {
				t.Errorf("%+v: %+v, %v; want %s", params, answer, err, what)
			}
		}
	})
}

func TestTokenListIsSignedForEachReader(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		nonce := bytes.Repeat([]byte{7}, writ.ClientNonce)
		list := func() link.TokenStanding {
			t.Helper()
			answer, err := s.Ask(t.Context(), link.VerbTokenStanding, link.StandingOfTokens{Nonce: nonce})
			if err != nil {
				t.Fatal(err)
			}
			records, _, err := envelope.Open[link.TokenStanding](envelope.TokenStanding, answer.(link.StandingAnswer).Proof, envelope.Only(s.key.Public().(ed25519.PublicKey)))
			if err != nil || len(records) != 1 {
				t.Fatalf("the proof holds %d lists: %v", len(records), err)
			}
			return records[0]
		}
		if none := list(); len(none.Tokens) != 0 {
			t.Errorf("there is none, and it is signed that there are %+v", none.Tokens)
		}
		token := s.tokenFor(3)
		n := &testNode{sim: s, name: "n1", key: newKey(t)}
		if _, err := n.claim(token); err != nil {
			t.Fatal(err)
		}
		got := list()
		want := link.TokenStanding{
			Cluster: s.Pin, Datacenter: theDatacenter, Nonce: nonce, Time: got.Time,
			Tokens: []link.StandingToken{{ID: token.ID, CreatedBy: "alice", Expires: got.Tokens[0].Expires, Uses: 3, Nodes: []string{"n1"}}},
		}
		if diff := cmp.Diff(want, got); diff != "" || got.Time == 0 || got.Tokens[0].Expires <= got.Time {
			t.Error(diff)
		}
		if answer, err := s.Ask(t.Context(), link.VerbTokenStanding, link.StandingOfTokens{Nonce: []byte("short")}); writ.CodeOf(err) != writ.CodeBadRequest {
			t.Errorf("a short nonce: %+v, %v", answer, err)
		}
	})
}

// A reader gets what is on hold of the projects that were asked for, and of what belongs to none. The answer names these projects.
func TestHoldListIsSignedForEachReader(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		nonce := bytes.Repeat([]byte{7}, writ.ClientNonce)
		list := func(projects ...writ.ProjectID) link.HoldStanding {
			t.Helper()
			answer, err := s.Ask(t.Context(), link.VerbHoldStanding, link.StandingOfHolds{Projects: projects, Nonce: nonce})
			if err != nil {
				t.Fatal(err)
			}
			records, _, err := envelope.Open[link.HoldStanding](envelope.HoldStanding, answer.(link.StandingAnswer).Proof, envelope.Only(s.key.Public().(ed25519.PublicKey)))
			if err != nil || len(records) != 1 {
				t.Fatalf("the proof holds %d lists: %v", len(records), err)
			}
			return records[0]
		}
		if none := list(identity.AllProjects); len(none.Holds) != 0 {
			t.Errorf("nothing is on hold, and it is signed that %+v are", none.Holds)
		}
		for _, work := range []string{allWork, volumeWork, shopsWork, websWork} {
			s.decideFor(work, identity.DecisionHold, "the disks fail")
		}
		const wiki = writ.ProjectID("0192f6c2-0000-7000-8000-0000000000cf")
		for _, tt := range []struct {
			projects []writ.ProjectID
			want     int
		}{{nil, 2}, {[]writ.ProjectID{wiki}, 2}, {[]writ.ProjectID{wiki, theProject}, 4}, {[]writ.ProjectID{identity.AllProjects}, 4}} {
			got := list(tt.projects...)
			if len(got.Holds) != tt.want || got.Time == 0 {
				t.Errorf("of %v are signed %+v, want %d", tt.projects, got, tt.want)
			}
			for _, h := range got.Holds {
				if last := h.Decided[0]; !h.Held || last.Signer != "alice" || last.Reason != "the disks fail" || tt.want == 2 && h.Project != "" {
					t.Errorf("of %v is signed %+v", tt.projects, h)
				}
			}
			want := link.HoldStanding{Cluster: s.Pin, Datacenter: theDatacenter, Projects: tt.projects, Holds: got.Holds, Nonce: nonce, Time: got.Time}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
		if answer, err := s.Ask(t.Context(), link.VerbHoldStanding, link.StandingOfHolds{Nonce: []byte("short")}); writ.CodeOf(err) != writ.CodeBadRequest {
			t.Errorf("a short nonce: %+v, %v", answer, err)
		}
	})
}

// wantRefused hands a submission in, wants it refused with a proof about it, and returns the proof.
func (s *sim) wantRefused(signed []byte, want writ.Code) []byte {
	s.t.Helper()
	_, err := s.Submit(s.t.Context(), signed)
	e := writ.AsError(err)
	if err == nil || e.Code != want {
		s.t.Fatalf("submit: %v, want %s", err, want)
	}
	text, _, _ := sshsig.Split(signed)
	a := s.opened(e.Proof)
	if a.Text != writ.DigestOf(text) || a.Subject != "run/"+string(writ.RunIDOf(a.Text)) || a.Datacenter != theDatacenter || a.Cluster != s.Pin ||
		a.Done != "" || a.Refused == nil || a.Refused.Code != want || a.Refused.Message != e.Message || a.Roster != 1 || a.RosterDigest != s.firstRoster() {
		s.t.Errorf("the proof says %+v", a)
	}
	return e.Proof
}

// Promise: Signatures and rosters: A supervisor signs one outcome per text: a repeat gets the same proof, a refused
// text stays refused, and only the author of a text gets its proof.
// How: The deciding transaction stores the answer until a day after the text expires; without space for a refusal the
// answer is `RATE_LIMITED`, without proof.
// Also: TestRefusedSubmissionStaysRefused, TestRefusalFloodAdmitsNoStatement,
// TestOnlyItsAuthorsTextIsRefusedWithAProof, TestAnAcceptedSubmissionIsNeverRefused.
func TestTheOutcomeOfAStatementIsSignedOnce(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		statement := s.change("db-password", 1, canary)
		signed := s.sign(statement)
		answer, err := s.Decide(t.Context(), signed)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := sshsig.Split(signed)
		a := s.opened(answer.Proof)
		if a.Text != writ.DigestOf(text) || a.Subject != statement.Subject || a.Done != answer.Done || a.Refused != nil || a.Datacenter != theDatacenter || a.Roster != 1 {
			t.Errorf("the proof says %+v", a)
		}
		s.halt()
		s.start()
		if again, err := s.Decide(t.Context(), signed); err != nil || !bytes.Equal(again.Proof, answer.Proof) {
			t.Errorf("the same statement again, after a restart: %v", err)
		}

		refused := s.sign(s.change("db-password", 5, canary))
		_, err = s.Decide(t.Context(), refused)
		first := writ.AsError(err)
		if first.Code != writ.CodeConflict || s.opened(first.Proof).Refused == nil {
			t.Fatalf("%v", err)
		}
		s.halt()
		s.start()
		if _, err := s.Decide(t.Context(), refused); !bytes.Equal(writ.AsError(err).Proof, first.Proof) || err.Error() != first.Error() {
			t.Errorf("what was refused, again, after a restart: %v", err)
		}
	})
}

// A refusal is signed again when another change of its commit fails: the proof of the first time is no part of the second one.
func TestRepeatedRefusalHasSameSignature(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		misnamed := s.payload("x := 1\n")
		misnamed.ProjectName = "elsewhere"
		signed := s.signPayload(misnamed)
		release := s.blockWrites()
		refused, failed := make(chan error), make(chan error)
		go func() {
			_, err := s.Submit(t.Context(), signed)
			refused <- err
		}()
		synctest.Wait()
		go func() {
			failed <- s.journal.Write(t.Context(), func(*journal.Tx) error { return errors.New("told to fail") })
		}()
		synctest.Wait()
		release()
		err := <-refused
		if <-failed == nil {
			t.Error("what was told to fail did not")
		}
		if a := s.opened(writ.AsError(err).Proof); a.Refused == nil || a.Refused.Code != writ.CodeOf(err) || a.Refused.Proof != nil {
			t.Errorf("%v, with the proof %+v", err, a)
		}
	})
}

// A coordinator could show the proof of a refusal that it brought about, and have the same text accepted later.
func TestRefusedSubmissionStaysRefused(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		later := s.payload("x := 1\n")
		later.Deployment = identity.Deployment{Name: "web", Base: 1}
		signed := s.signPayload(later)
		proof := s.wantRefused(signed, writ.CodeConflict)
		first := s.payload("x := 1\n")
		first.Deployment = identity.Deployment{Name: "web"}
		if _, err := s.Submit(t.Context(), s.signPayload(first)); err != nil {
			t.Fatal(err)
		}
		if again := s.wantRefused(signed, writ.CodeConflict); !bytes.Equal(again, proof) {
			t.Error("the same submission gets another proof")
		}
		later.Nonce = identity.NewNonce()
		if _, err := s.Submit(t.Context(), s.signPayload(later)); err != nil {
			t.Errorf("signed again: %v", err)
		}
	})
}

// Whoever has a lot refused makes nothing acceptable that was refused before. What there is no room for is told without a proof: it may be
// accepted later.
func TestRefusalFloodAdmitsNoStatement(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		tooEarly := func() []byte {
			p := s.payload("x := 1\n")
			p.Deployment, p.Nonce = identity.Deployment{Name: "web", Base: 1}, identity.NewNonce()
			return s.signPayload(p)
		}
		kept, unkept := tooEarly(), tooEarly()
		proof := s.wantRefused(kept, writ.CodeConflict)
		time.Sleep(time.Second) // it is the oldest
		for n := range 32 {
			flood := journal.Text{Digest: writ.DigestOf([]byte{byte(n)}), Signer: s.payload("").Signer, Expires: s.Now().Add(time.Hour)}
			err := s.journal.Write(t.Context(), func(tx *journal.Tx) error { return tx.AddRefusal(flood, make([]byte, journal.MaxRefusalBytes/16-96)) }) // 16 leave room for one proof, which has about 1,100 bytes, and not for two
			if (err == nil) != (n < 16) {
				t.Fatalf("refusal %d of a flood: %v", n, err)
			}
		}
		_, err := s.Submit(t.Context(), unkept)
		if e := writ.AsError(err); e.Code != writ.CodeRateLimited || e.Proof != nil || !strings.Contains(e.Message, string(writ.CodeConflict)) {
			t.Errorf("what there is no room for: %v, with a proof of %d bytes", err, len(e.Proof))
		}
		first := s.payload("x := 1\n")
		first.Deployment = identity.Deployment{Name: "web"}
		if _, err := s.Submit(t.Context(), s.signPayload(first)); err != nil {
			t.Fatalf("what need not be refused: %v", err)
		}
		if again := s.wantRefused(kept, writ.CodeConflict); !bytes.Equal(again, proof) {
			t.Error("the same submission gets another proof")
		}
		if _, err := s.Submit(t.Context(), unkept); err != nil {
			t.Errorf("what was not refused for good: %v", err)
		}
	})
}

// Whoever joins somebody's text with another signature gets no proof about that text.
func TestOnlyItsAuthorsTextIsRefusedWithAProof(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		signed := s.signPayload(s.payload("x := 1\n"))
		text, armored, err := sshsig.Split(signed)
		if err != nil {
			t.Fatal(err)
		}
		stranger := s.signPayloadBy(sshsig.NewSigner(newKey(t)), s.payload("x := 1\n"))
		elsewhere := s.payload("x := 1\n")
		elsewhere.Datacenter = "01920000-0000-7000-8000-0000000000ff"
		_, other, _ := sshsig.Split(s.signPayload(s.payload("y := 1\n")))
		for what, lie := range map[string][]byte{
			"with another signature":  sshsig.Join(text, other),
			"by a stranger":           stranger,
			"changed":                 sshsig.Join(append(bytes.Clone(text), ' '), armored),
			"for another datacenter":  s.signPayload(elsewhere),
			"a statement as a script": s.sign(s.change("db-password", 1, canary)),
		} {
			if _, err := s.Submit(t.Context(), lie); err == nil || writ.AsError(err).Proof != nil {
				t.Errorf("%s: %v, with a proof of %d bytes", what, err, len(writ.AsError(err).Proof))
			}
		}
		if _, err := s.Submit(t.Context(), signed); err != nil {
			t.Errorf("the text itself: %v", err)
		}
	})
}

// What was accepted is answered with its run, also when its signer may do nothing any more: a proof that it was refused would be false.
func TestAnAcceptedSubmissionIsNeverRefused(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		signed := s.signPayload(s.payload("x := 1\n"))
		run, err := s.Submit(t.Context(), signed)
		if err != nil {
			t.Fatal(err)
		}
		s.await(run.ID)
		next, err := s.roster.Successor(s.clock.now())
		if err != nil {
			t.Fatal(err)
		}
		next.Bindings = nil
		s.adopt(next)
		if _, err := s.AdoptRosters(t.Context(), s.rosters); err != nil {
			t.Fatal(err)
		}
		if again, err := s.Submit(t.Context(), signed); err != nil || again.ID != run.ID {
			t.Errorf("handed in again: %+v, %v", again, err)
		}
		if _, err := s.Submit(t.Context(), s.signPayload(s.payload("x := 2\n"))); writ.CodeOf(err) != writ.CodeRoleMissing || writ.AsError(err).Proof == nil {
			t.Errorf("a new one: %v", err)
		}
	})
}

// BenchmarkRefusal measures what it costs to refuse a submission, with its proof and its row.
func BenchmarkRefusal(b *testing.B) {
	s := newSim(b)
	var all [][]byte
	for range 200 {
		p := s.payload("x := 1\n")
		p.Deployment = identity.Deployment{Name: "web", Base: 9}
		p.Nonce = identity.NewNonce()
		all = append(all, s.signPayload(p))
	}
	start := time.Now()
	n := 0
	for b.Loop() {
		if _, err := s.Submit(b.Context(), all[n%len(all)]); writ.CodeOf(err) != writ.CodeConflict {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/float64(n), "µs/refusal")
}
