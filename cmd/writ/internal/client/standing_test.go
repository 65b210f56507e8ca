package client

import (
	"encoding/hex"
	"net/http"
	"testing"

	"writ"
	"writ/coord/api"
	"writ/identity/envelope"
	"writ/supervisor/link"
)

// The status of a node is accepted only with a fresh signature of the supervisor for the named node.
func TestNodeStateNeedsTheSignatureOfTheDatacenter(t *testing.T) {
	w := newFixture(t)
	roster := w.alice.Roster
	graz := roster.Datacenters.Named("graz")
	n := writ.Node{ID: "n1", Datacenter: graz.ID, Name: "web1", Key: "SHA256:x"}
	stands := func(change func(s *link.NodeStanding)) func(nonce []byte) (any, int) {
		return func(nonce []byte) (any, int) {
			s := link.NodeStanding{Cluster: roster.Cluster, Datacenter: graz.ID, Node: n.ID, Name: n.Name, Key: n.Key, Scheduling: writ.SchedulingDrained, Nonce: nonce}
			change(&s)
			return api.NodeStanding{Proof: signedBy(t, w.datacenters["graz"], envelope.NodeStanding, s)}, http.StatusOK
		}
	}
	says := func(code writ.Code) func([]byte) (any, int) {
		return func([]byte) (any, int) {
			return api.ProblemOf(writ.Errorf(code, "x"), "request"), code.Info().Status
		}
	}
	for what, tt := range map[string]struct {
		answer func(nonce []byte) (any, int)
		want   writ.Code
	}{
		"it stands so":             {stands(func(*link.NodeStanding) {}), ""},
		"an answer from before":    {stands(func(s *link.NodeStanding) { s.Nonce = make([]byte, writ.ClientNonce) }), writ.CodeUnverified},
		"about another node":       {stands(func(s *link.NodeStanding) { s.Node = "n2" }), writ.CodeUnverified},
		"under another name":       {stands(func(s *link.NodeStanding) { s.Name = "web2" }), writ.CodeUnverified},
		"with another key":         {stands(func(s *link.NodeStanding) { s.Key = "SHA256:y" }), writ.CodeUnverified},
		"about another datacenter": {stands(func(s *link.NodeStanding) { s.Datacenter = roster.Datacenters.Named("linz").ID }), writ.CodeUnverified},
		"of another cluster":       {stands(func(s *link.NodeStanding) { s.Cluster = "x" }), writ.CodeUnverified},
		"by another supervisor": {func(nonce []byte) (any, int) {
			return api.NodeStanding{Proof: signedBy(t, w.datacenters["linz"], envelope.NodeStanding, link.NodeStanding{Nonce: nonce})}, http.StatusOK
		}, writ.CodeUnverified},
		"of another kind": {func(nonce []byte) (any, int) {
			return api.NodeStanding{Proof: signedBy(t, w.datacenters["graz"], envelope.Standing, link.NodeStanding{Nonce: nonce})}, http.StatusOK
		}, writ.CodeUnverified},
		"without a proof":         {func([]byte) (any, int) { return api.NodeStanding{}, http.StatusOK }, writ.CodeUnverified},
		"the datacenter is away":  {says(writ.CodeDatacenterAway), writ.CodeDatacenterAway},
		"the supervisor is older": {says(writ.CodeVerbUnsupported), writ.CodeVerbUnsupported},
	} {
		t.Run(what, func(t *testing.T) {
			c := w.clientOf(t, func(r *http.Request) (any, int) {
				nonce, err := hex.DecodeString(r.URL.Query().Get("nonce"))
				if err != nil || r.URL.Path != "/v1/datacenters/"+string(graz.ID)+"/nodes/n1/standing" {
					t.Errorf("asked for %s, %v", r.URL, err)
				}
				return tt.answer(nonce)
			})
			got, err := c.Nodes.Standing(t.Context(), roster, n)
			if writ.CodeOf(err) != tt.want || err == nil && got.Scheduling != writ.SchedulingDrained {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// A list of join tokens is accepted only with a fresh signature of the supervisor.
//
// Promise: Signatures and rosters: A coordinator that swaps two join tokens in its list cannot choose the token that
// a person revokes.
// How: `writ token list` shows the list that the supervisor signed over a nonce of the client.
// Also: TestAHostileCoordinatorRedirectsNoDecision/what_no_supervisor_signed.
func TestOnlyTheSignatureOfTheDatacenterListsItsTokens(t *testing.T) {
	w := newFixture(t)
	roster := w.alice.Roster
	graz := roster.Datacenters.Named("graz")
	stands := func(by string, kind envelope.Kind, change func(s *link.TokenStanding)) func(nonce []byte) (any, int) {
		return func(nonce []byte) (any, int) {
			s := link.TokenStanding{Cluster: roster.Cluster, Datacenter: graz.ID, Nonce: nonce, Tokens: []link.StandingToken{{ID: "a", CreatedBy: "alice", Uses: 2, Nodes: []string{"n1"}}}}
			change(&s)
			return api.TokenStanding{Proof: signedBy(t, w.datacenters[by], kind, s)}, http.StatusOK
		}
	}
	same := func(*link.TokenStanding) {}
	for what, tt := range map[string]struct {
		answer func(nonce []byte) (any, int)
		want   writ.Code
	}{
		"these are the tokens":  {stands("graz", envelope.TokenStanding, same), ""},
		"an answer from before": {stands("graz", envelope.TokenStanding, func(s *link.TokenStanding) { s.Nonce = make([]byte, writ.ClientNonce) }), writ.CodeUnverified},
		"about another datacenter": {
			stands("graz", envelope.TokenStanding, func(s *link.TokenStanding) { s.Datacenter = roster.Datacenters.Named("linz").ID }), writ.CodeUnverified,
		},
		"of another cluster":    {stands("graz", envelope.TokenStanding, func(s *link.TokenStanding) { s.Cluster = "x" }), writ.CodeUnverified},
		"by another supervisor": {stands("linz", envelope.TokenStanding, same), writ.CodeUnverified},
		"of another kind":       {stands("graz", envelope.NodeStanding, same), writ.CodeUnverified},
		"without a proof":       {func([]byte) (any, int) { return api.TokenStanding{}, http.StatusOK }, writ.CodeUnverified},
		"the supervisor is older": {func([]byte) (any, int) {
			return api.ProblemOf(writ.Errorf(writ.CodeVerbUnsupported, "x"), "request"), writ.CodeVerbUnsupported.Info().Status
		}, writ.CodeVerbUnsupported},
	} {
		t.Run(what, func(t *testing.T) {
			c := w.clientOf(t, func(r *http.Request) (any, int) {
				nonce, err := hex.DecodeString(r.URL.Query().Get("nonce"))
				if err != nil || r.URL.Path != "/v1/datacenters/"+string(graz.ID)+"/tokens/standing" {
					t.Errorf("asked for %s, %v", r.URL, err)
				}
				return tt.answer(nonce)
			})
			got, err := c.Statements.Tokens(t.Context(), roster, graz)
			if writ.CodeOf(err) != tt.want || err == nil && (len(got) != 1 || got[0].ID != "a" || got[0].CreatedBy != "alice" || got[0].Used != 1) || err != nil && got != nil {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// A list of holds is accepted only with a fresh signature of the supervisor for the requested projects.
//
// Promise: Signatures and rosters: A coordinator can neither hide nor invent a hold in `writ hold list`, `writ dc
// list` and `writ doctor`, and a reader of one project sees only the holds of that project.
// How: The supervisor signs the list over a nonce of the client and the names of the projects.
// Also: TestSignedHoldsContainOnlyReadableProjects,
// TestAHostileCoordinatorRedirectsNoDecision/what_no_supervisor_signed, TestScripts/hold.
func TestHoldsNeedTheSignatureOfTheDatacenter(t *testing.T) {
	w := newFixture(t)
	roster := w.alice.Roster
	graz, shop := roster.Datacenters.Named("graz"), roster.Projects[0].ID
	stands := func(by string, kind envelope.Kind, change func(s *link.HoldStanding)) func(nonce []byte) (any, int) {
		return func(nonce []byte) (any, int) {
			s := link.HoldStanding{Cluster: roster.Cluster, Datacenter: graz.ID, Projects: []writ.ProjectID{shop}, Nonce: nonce, Holds: []link.Hold{
				{Project: shop, ProjectName: "shop", Held: true, Revision: 7, Decided: []writ.Decision{{Decision: "hold", Signer: "alice"}}},
			}}
			change(&s)
			return api.HoldStanding{Proof: signedBy(t, w.datacenters[by], kind, s)}, http.StatusOK
		}
	}
	same := func(*link.HoldStanding) {}
	for what, tt := range map[string]struct {
		answer func(nonce []byte) (any, int)
		want   writ.Code
	}{
		"this is on hold":       {stands("graz", envelope.HoldStanding, same), ""},
		"an answer from before": {stands("graz", envelope.HoldStanding, func(s *link.HoldStanding) { s.Nonce = make([]byte, writ.ClientNonce) }), writ.CodeUnverified},
		"of fewer projects":     {stands("graz", envelope.HoldStanding, func(s *link.HoldStanding) { s.Projects, s.Holds = nil, nil }), writ.CodeUnverified},
		"of more projects":      {stands("graz", envelope.HoldStanding, func(s *link.HoldStanding) { s.Projects[0] = "*" }), writ.CodeUnverified},
		"about another datacenter": {
			stands("graz", envelope.HoldStanding, func(s *link.HoldStanding) { s.Datacenter = roster.Datacenters.Named("linz").ID }), writ.CodeUnverified,
		},
		"of another cluster":    {stands("graz", envelope.HoldStanding, func(s *link.HoldStanding) { s.Cluster = "x" }), writ.CodeUnverified},
		"by another supervisor": {stands("linz", envelope.HoldStanding, same), writ.CodeUnverified},
		"of another kind":       {stands("graz", envelope.TokenStanding, same), writ.CodeUnverified},
		"without a proof":       {func([]byte) (any, int) { return api.HoldStanding{}, http.StatusOK }, writ.CodeUnverified},
		"the supervisor is older": {func([]byte) (any, int) {
			return api.ProblemOf(writ.Errorf(writ.CodeVerbUnsupported, "x"), "request"), writ.CodeVerbUnsupported.Info().Status
		}, writ.CodeVerbUnsupported},
	} {
		t.Run(what, func(t *testing.T) {
			c := w.clientOf(t, func(r *http.Request) (any, int) {
				nonce, err := hex.DecodeString(r.URL.Query().Get("nonce"))
				if err != nil || r.URL.Path != "/v1/datacenters/"+string(graz.ID)+"/holds/standing" || r.URL.Query().Get("project") != string(shop) {
					t.Errorf("asked for %s, %v", r.URL, err)
				}
				return tt.answer(nonce)
			})
			got, err := c.Holds.List(t.Context(), roster, graz, []writ.ProjectID{shop})
			if writ.CodeOf(err) != tt.want || err == nil && (len(got) != 1 || !got[0].Held || got[0].Project != shop || got[0].Decided[0].Signer != "alice") || err != nil && got != nil {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
