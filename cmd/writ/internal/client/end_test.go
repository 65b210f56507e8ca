package client

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
	"writ/identity/envelope"
	"writ/supervisor/link"
)

// A summary signed before a resume remains validly signed. A coordinator that shows it must also show that the
// datacenter currently confirms it.
//
// Promise: Signatures and rosters: Commands never show an earlier failure as the end of a resumed run; if the
// datacenter is unreachable, they print the time of the last verified state.
// How: The client requests the run state with a nonce; the supervisor signs state, resumes and the digest of the last
// summary.
// Also: TestRunStateIsSignedForEachReader, TestAHostileCoordinatorRedirectsNoDecision/what_no_supervisor_signed.
func TestEarlierEndOfAResumedRunIsNotVerified(t *testing.T) {
	w := newFixture(t)
	roster := w.alice.Roster
	graz := roster.Datacenters.Named("graz")
	payload := writ.DigestOf([]byte("a payload"))
	id := writ.RunIDOf(payload)
	end := func(state writ.RunState, ended int64) []byte {
		return signedBy(t, w.datacenters["graz"], envelope.Summary, writ.Summary{Run: id, Datacenter: graz.ID, Payload: payload, State: state, Ended: ended})
	}
	first, second := end(writ.RunFailed, 1), end(writ.RunFailed, 2)
	run := api.Run{ID: id, Datacenter: graz.ID, Payload: payload, State: api.RunStateFailed, Accepted: time.Now(), Summary: first}
	stands := func(change func(s *link.RunStanding)) func(nonce []byte) (any, int) {
		return func(nonce []byte) (any, int) {
			s := link.RunStanding{Cluster: roster.Cluster, Datacenter: graz.ID, Run: id, State: writ.RunFailed, Summary: writ.DigestOf(first), Nonce: nonce}
			change(&s)
			return api.RunStanding{Proof: signedBy(t, w.datacenters["graz"], envelope.RunStanding, s)}, http.StatusOK
		}
	}
	says := func(code writ.Code) func([]byte) (any, int) {
		return func([]byte) (any, int) {
			return api.ProblemOf(writ.Errorf(code, "x"), "request"), code.Info().Status
		}
	}
	for what, tt := range map[string]struct {
		answer  func(nonce []byte) (any, int)
		want    writ.Code
		earlier bool
		unsure  writ.Code
	}{
		"it stands so":                   {stands(func(*link.RunStanding) {}), "", false, ""},
		"it goes on":                     {stands(func(s *link.RunStanding) { s.State, s.Resumes, s.Summary = writ.RunRunning, 1, writ.Digest{} }), writ.CodeUnverified, true, ""},
		"it succeeded":                   {stands(func(s *link.RunStanding) { s.State, s.Summary = writ.RunSucceeded, writ.DigestOf([]byte("x")) }), writ.CodeUnverified, true, ""},
		"it failed again":                {stands(func(s *link.RunStanding) { s.Summary = writ.DigestOf(second) }), writ.CodeUnverified, true, ""},
		"an answer from before":          {stands(func(s *link.RunStanding) { s.Nonce = make([]byte, writ.ClientNonce) }), writ.CodeUnverified, false, ""},
		"about another run":              {stands(func(s *link.RunStanding) { s.Run = writ.RunIDOf(writ.Digest{}) }), writ.CodeUnverified, false, ""},
		"about another datacenter":       {stands(func(s *link.RunStanding) { s.Datacenter = roster.Datacenters.Named("linz").ID }), writ.CodeUnverified, false, ""},
		"of another cluster":             {stands(func(s *link.RunStanding) { s.Cluster = "x" }), writ.CodeUnverified, false, ""},
		"of another kind":                {func([]byte) (any, int) { return api.RunStanding{Proof: first}, http.StatusOK }, writ.CodeUnverified, false, ""},
		"without a proof":                {func([]byte) (any, int) { return api.RunStanding{}, http.StatusOK }, writ.CodeUnverified, false, ""},
		"the datacenter is away":         {says(writ.CodeDatacenterAway), "", false, writ.CodeDatacenterAway},
		"the supervisor is older":        {says(writ.CodeVerbUnsupported), "", false, writ.CodeVerbUnsupported},
		"the datacenter has it no more":  {says(writ.CodeNotFound), "", false, writ.CodeNotFound},
		"of a success, which is the end": {nil, "", false, ""},
	} {
		t.Run(what, func(t *testing.T) {
			shown := run
			if tt.answer == nil {
				shown.State, shown.Summary = api.RunStateSucceeded, end(writ.RunSucceeded, 2)
			}
			c := w.clientOf(t, func(r *http.Request) (any, int) {
				nonce, err := hex.DecodeString(r.URL.Query().Get("nonce"))
				if err != nil || r.URL.Path != "/v1/runs/"+string(id)+"/standing" || tt.answer == nil {
					t.Errorf("asked for %s, %v", r.URL, err)
				}
				return tt.answer(nonce)
			})
			got, earlier, err := c.Runs.endOf(t.Context(), roster, shown)
			if writ.CodeOf(err) != tt.want || earlier != tt.earlier || writ.CodeOf(got.Unsure) != tt.unsure {
				t.Errorf("earlier %v, unsure %v, %v", earlier, got.Unsure, err)
			}
			if err == nil && got.State != writ.RunState(shown.State) {
				t.Errorf("it is %s", got.State)
			}
		})
	}

	// A coordinator that learns of the resume slightly later is accepted.
	asked := 0
	late := run
	c := w.clientOf(t, func(r *http.Request) (any, int) {
		if r.URL.Path == "/v1/runs/"+string(id) {
			asked++
			newer := run
			if newer.Summary = second; asked == 1 {
				newer.Summary = first
			}
			return newer, http.StatusOK
		}
		nonce, _ := hex.DecodeString(r.URL.Query().Get("nonce"))
		return stands(func(s *link.RunStanding) { s.Summary, s.Resumes = writ.DigestOf(second), 1 })(nonce)
	})
	if got, err := c.Runs.End(t.Context(), roster, &late); err != nil || got.Ended != 2 || got.Unsure != nil || asked != 2 {
		t.Errorf("%+v, %v, asked %d times", got, err, asked)
	}
}

// A coordinator shows a text that the datacenter has refused in each state of a run, with the signed refusal as its
// proof. The refusal proves only that the run was refused, or that a failed run is lost; it never proves an acceptance.
func TestRefusalProvesNoSuccess(t *testing.T) {
	w := newFixture(t)
	roster := w.alice.Roster
	graz := roster.Datacenters.Named("graz")
	payload := writ.DigestOf([]byte("a text of another person"))
	proof := signedBy(t, w.datacenters["graz"], envelope.Answer, writ.Answer{
		Cluster: roster.Cluster, Datacenter: graz.ID, Text: payload, Roster: roster.Version,
		Refused: writ.Errorf(writ.CodeRoleMissing, "the signer may not submit in this project"),
	})
	c := w.clientOf(t, func(*http.Request) (any, int) { return nil, http.StatusNotFound })
	states := []api.RunState{
		api.RunStateRefused, api.RunStateExpired, api.RunStateSucceeded, api.RunStateFailed, api.RunStateCancelled,
	}
	for _, state := range states {
		for _, code := range []writ.Code{writ.CodeRoleMissing, writ.CodeRunLost} {
			for _, accepted := range []time.Time{{}, time.Now()} {
				said := writ.Errorf(code, "x")
				said.Proof = proof
				end, err := c.Runs.End(t.Context(), roster, &api.Run{
					ID: writ.RunIDOf(payload), Datacenter: graz.ID, Payload: payload, State: state, Revision: 5,
					Accepted: accepted, Failure: &writ.Failure{Error: *said},
				})
				proved := accepted.IsZero() && (state == api.RunStateRefused || state == api.RunStateExpired) ||
					!accepted.IsZero() && state == api.RunStateFailed && code == writ.CodeRunLost
				switch {
				case proved && (err != nil || !end.Refused):
					t.Errorf("%s, %s, accepted at %s: %+v, %v", state, code, accepted, end, err)
				case !proved && writ.CodeOf(err) != writ.CodeUnverified:
					t.Errorf("%s, %s, accepted at %s: %v", state, code, accepted, err)
				}
			}
		}
	}
}

// clientOf returns a client of a single coordinator with this answer function.
func (w *fixture) clientOf(t *testing.T, answer func(r *http.Request) (any, int)) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said, status := answer(r)
		w.Header().Set("Content-Type", "application/json")
		if status != http.StatusOK {
			w.Header().Set("Content-Type", api.ProblemType)
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(said) // a client that disconnects detects the loss
	}))
	t.Cleanup(s.Close)
	c, err := New(config.Context{Servers: []string{s.URL}, Cluster: w.cluster}, t.TempDir(), Keys{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
