package client

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/api/apiclient"
	"writ/identity"
	"writ/identity/envelope"
)

// A client signs a login only for a fresh challenge that a coordinator of its roster made for this address.
func TestALoginIsSignedForACoordinatorOfTheRosterOnly(t *testing.T) {
	key := func() ed25519.PrivateKey {
		_, k, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	front, other, stranger := key(), key(), key()
	named := func(name string, k ed25519.PrivateKey) identity.Coordinator {
		return identity.Coordinator{ID: writ.NewUUID(), Name: name, Key: k.Public().(ed25519.PublicKey)}
	}
	roster := &identity.Roster{Coordinators: []identity.Coordinator{named("front", front), named("other", other)}}
	id := roster.Coordinators[0].ID
	var signs ed25519.PrivateKey
	var kind envelope.Kind
	var change func(c *identity.LoginChallenge)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in api.NewChallenge
		_ = json.NewDecoder(r.Body).Decode(&in)
		c := identity.LoginChallenge{Coordinator: id, URL: in.URL, Client: in.Nonce, Nonce: make([]byte, identity.NonceSize)}
		change(&c)
		signed, err := envelope.Sign(kind, signs, c)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.LoginChallenge{Signed: signed})
	}))
	defer server.Close()
	at, err := apiclient.NewClient(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	as := func(*identity.LoginChallenge) {}
	for name, tt := range map[string]struct {
		key    ed25519.PrivateKey
		kind   envelope.Kind
		change func(c *identity.LoginChallenge)
		want   writ.Code
	}{
		"the coordinator":             {front, envelope.Challenge, as, ""},
		"a stranger":                  {stranger, envelope.Challenge, as, writ.CodeUnverified},
		"another coordinator":         {other, envelope.Challenge, as, writ.CodeUnverified},
		"an envelope of another kind": {front, envelope.Answer, as, writ.CodeUnverified},
		"another address":             {front, envelope.Challenge, func(c *identity.LoginChallenge) { c.URL = "https://evil.example.org" }, writ.CodeUnverified},
		"an old challenge":            {front, envelope.Challenge, func(c *identity.LoginChallenge) { c.Client = make([]byte, identity.NonceSize) }, writ.CodeUnverified},
		"a short nonce":               {front, envelope.Challenge, func(c *identity.LoginChallenge) { c.Nonce = nil }, writ.CodeUnverified},
		"nobody":                      {front, envelope.Challenge, func(c *identity.LoginChallenge) { c.Coordinator = writ.NewUUID() }, writ.CodeUnverified},
	} {
		signs, kind, change = tt.key, tt.kind, tt.change
		if _, err := challenged(t.Context(), at, server.URL, roster); writ.CodeOf(err) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A login that would be rejected because of the time is not signed. The error shows both clocks.
//
// Promise: Readers and roles: A login with a wrong clock is not signed, and the error names both clocks.
// How: The coordinator signs its time with the challenge.
func TestALoginWithAWrongClockNamesBothClocks(t *testing.T) {
	here := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for off, want := range map[time.Duration]writ.Code{
		0: "", 50 * time.Second: "", -110 * time.Second: "", 3 * time.Hour: writ.CodeNotYetValid, -3 * time.Hour: writ.CodeExpired,
	} {
		err := clocksAgree(here, here.Add(-off))
		if writ.CodeOf(err) != want {
			t.Errorf("%s ahead: %v", off, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "2026-03-01 12:00:00 UTC") || !strings.Contains(err.Error(), "wrong by 3h0m0s")) {
			t.Errorf("%s ahead: %v", off, err)
		}
	}
}
