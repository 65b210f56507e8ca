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

// opened verifies a proof of the supervisor and returns its answer.
func (s *sim) opened(proof []byte) writ.Answer {
	s.t.Helper()
	records, _, err := envelope.Open[writ.Answer](envelope.Answer, proof, envelope.Only(s.key.Public().(ed25519.PublicKey)))
	if err != nil || len(records) != 1 {
		s.t.Fatalf("the proof holds %d answers: %v", len(records), err)
	}
	return records[0]
}

// standingOf asks for the signed state of a node.
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

func TestNodeStateIsSignedForEachReader(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		want := link.NodeStanding{
			Cluster: s.Pin, Datacenter: theDatacenter, Node: n.id, Name: "n1", Key: sshsig.Fingerprint(n.key.Public().(ed25519.PublicKey)),
			Admission: writ.AdmissionApproved, Nonce: make([]byte, writ.ClientNonce),
		}
		for _, step := range []struct {
			decision   string
			admission  writ.Admission
			scheduling writ.Scheduling
		}{
			{"cordon", writ.AdmissionApproved, writ.SchedulingCordoned}, {"uncordon", writ.AdmissionApproved, writ.SchedulingOpen},
			{"remove", writ.AdmissionRemoved, writ.SchedulingOpen},
		} {
			revision := s.standingOf(n).Revision
			s.decide(n.id, step.decision)
			got := s.standingOf(n)
			want.Admission, want.Scheduling, want.Revision, want.Time = step.admission, step.scheduling, revision+1, got.Time
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
			t.Errorf("got a signed list of %+v, want no tokens", none.Tokens)
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

// The signed list has the holds of the requested projects and the holds without a project. It names the requested
// projects.
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
			t.Errorf("got a signed list of %+v, want no holds", none.Holds)
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
				t.Errorf("holds of %v: %+v, want %d", tt.projects, got, tt.want)
			}
			for _, h := range got.Holds {
				if last := h.Decided[0]; !h.Held || last.Signer != "alice" || last.Reason != "the disks fail" || tt.want == 2 && h.Project != "" {
					t.Errorf("projects %v: unexpected hold %+v", tt.projects, h)
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

// wantRefused submits signed, checks that it is refused with want, and returns the proof of the refusal.
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
		s.t.Errorf("unexpected proof: %+v", a)
	}
	return e.Proof
}

// Promise: Signatures and rosters: A supervisor signs one outcome per text: a repeat gets the same proof, a refused
// text stays refused, and only the author of a text gets its proof.
// How: The deciding transaction stores the answer until a day after the text expires; without space for a refusal the
// answer is `RATE_LIMITED`, without proof.
// Also: TestRefusedSubmissionStaysRefused, TestRefusalFloodAdmitsNoStatement,
// TestOnlyAuthorGetsProofOfRefusal, TestAcceptedSubmissionIsNeverRefused.
func TestStatementOutcomeIsSignedOnce(t *testing.T) {
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
			t.Errorf("unexpected proof: %+v", a)
		}
		s.halt()
		s.start()
		if again, err := s.Decide(t.Context(), signed); err != nil || !bytes.Equal(again.Proof, answer.Proof) {
			t.Errorf("repeated statement after a restart: %v, want the same proof", err)
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
			t.Errorf("repeated refused statement after a restart: %v, want the same proof", err)
		}
	})
}

// If another change in the same commit fails, the supervisor refuses and signs again. The second answer must not
// contain the first proof.
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
			failed <- s.journal.Write(t.Context(), func(*journal.Tx) error { return errors.New("injected failure") })
		}()
		synctest.Wait()
		release()
		err := <-refused
		if <-failed == nil {
			t.Error("the write with an injected failure succeeded")
		}
		if a := s.opened(writ.AsError(err).Proof); a.Refused == nil || a.Refused.Code != writ.CodeOf(err) || a.Refused.Proof != nil {
			t.Errorf("%v, proof %+v", err, a)
		}
	})
}

// A malicious coordinator could cause a refusal, show its proof, and submit the same text successfully later.
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
			t.Error("repeated submission: got a different proof")
		}
		later.Nonce = identity.NewNonce()
		if _, err := s.Submit(t.Context(), s.signPayload(later)); err != nil {
			t.Errorf("same script with a new nonce: %v", err)
		}
	})
}

// A flood of refusals removes no earlier refusal. When the space for refusals is used up, a refusal has no proof,
// because the text may be accepted later.
func TestRefusalFloodAdmitsNoStatement(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		tooEarly := func() []byte {
			p := s.payload("x := 1\n")
			p.Deployment, p.Nonce = identity.Deployment{Name: "web", Base: 1}, identity.NewNonce()
			return s.signPayload(p)
		}
		kept, unkept := tooEarly(), tooEarly()
		proof := s.wantRefused(kept, writ.CodeConflict)
		time.Sleep(time.Second) // volumeScript it the oldest refusal
		for n := range 32 {
			flood := journal.Text{Digest: writ.DigestOf([]byte{byte(n)}), Signer: s.payload("").Signer, Expires: s.Now().Add(time.Hour)}
			err := s.journal.Write(t.Context(), func(tx *journal.Tx) error { return tx.AddRefusal(flood, make([]byte, journal.MaxRefusalBytes/16-96)) }) // 16 rows leave room for one proof of about 1,100 bytes, not for two
			if (err == nil) != (n < 16) {
				t.Fatalf("add refusal %d of the flood: %v", n, err)
			}
		}
		_, err := s.Submit(t.Context(), unkept)
		if e := writ.AsError(err); e.Code != writ.CodeRateLimited || e.Proof != nil || !strings.Contains(e.Message, string(writ.CodeConflict)) {
			t.Errorf("refusal without space: %v with a proof of %d bytes, want RATE_LIMITED without proof", err, len(e.Proof))
		}
		first := s.payload("x := 1\n")
		first.Deployment = identity.Deployment{Name: "web"}
		if _, err := s.Submit(t.Context(), s.signPayload(first)); err != nil {
			t.Fatalf("valid submission during the flood: %v", err)
		}
		if again := s.wantRefused(kept, writ.CodeConflict); !bytes.Equal(again, proof) {
			t.Error("repeated submission: got a different proof")
		}
		if _, err := s.Submit(t.Context(), unkept); err != nil {
			t.Errorf("submission that was refused without a proof: %v, want it accepted", err)
		}
	})
}

// A person who joins another author's text with a different signature gets no proof about that text.
func TestOnlyAuthorGetsProofOfRefusal(t *testing.T) {
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
				t.Errorf("%s: %v with a proof of %d bytes, want an error without proof", what, err, len(writ.AsError(err).Proof))
			}
		}
		if _, err := s.Submit(t.Context(), signed); err != nil {
			t.Errorf("submission with its own signature: %v", err)
		}
	})
}

// A repeated submission of an accepted text returns its run, even if the signer has lost all rights: a proof of a
// refusal would be false.
func TestAcceptedSubmissionIsNeverRefused(t *testing.T) {
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
			t.Errorf("repeated submission: %+v, %v", again, err)
		}
		if _, err := s.Submit(t.Context(), s.signPayload(s.payload("x := 2\n"))); writ.CodeOf(err) != writ.CodeRoleMissing || writ.AsError(err).Proof == nil {
			t.Errorf("new submission: %v, want ROLE_MISSING with a proof", err)
		}
	})
}

// BenchmarkRefusal measures the refusal of a submission, including its proof and its row.
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
