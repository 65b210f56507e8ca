package access

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/envelope"
)

// sessionKey returns the public key of a session.
func sessionKey(who string, i int) ed25519.PublicKey {
	seed := sha256.Sum256(fmt.Append(nil, who, i))
	return ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)
}

func TestSessionsOfOneSignerAreBounded(t *testing.T) {
	l := newSessions()
	now := time.Now()
	login := func(who string, i int) api.LoginToken {
		k := sessionKey(who, i)
		token, err := l.begin(&identity.VerifiedLogin{Login: &identity.Login{Signer: who, Session: k, Until: now.Add(time.Hour)}}, now.Add(time.Duration(i)))
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	other := login("bob", 0)
	first := login("carol", 0)
	for i := range maxSessionsSigner {
		login("carol", i+1)
	}
	if l.of(sumOf(first.Token), now) != nil || l.of(sumOf(other.Token), now) == nil || len(l.all) != maxSessionsSigner+1 || len(l.tokens) != maxSessionsSigner+1 {
		t.Errorf("%d sessions, %d tokens", len(l.all), len(l.tokens))
	}
	// A session that restarts, or ends, leaves no valid token.
	before := l.all[envelope.IDOf(sessionKey("bob", 0))]
	anew := login("bob", 0)
	if l.of(sumOf(other.Token), now) != nil || l.of(sumOf(anew.Token), now) == nil {
		t.Error("the old token of the session works, or its new one does not")
	}
	if _, err := l.grant(l.tokens, before, now, TokenValidity); writ.CodeOf(err) != writ.CodeLoginRequired {
		t.Errorf("a token of an ended session: %v", err)
	}
	other = anew
	taken := &identity.VerifiedLogin{Login: &identity.Login{Signer: "dave", Session: sessionKey("bob", 0), Until: now.Add(time.Hour)}}
	if _, err := l.begin(taken, now); writ.CodeOf(err) != writ.CodeLoginRefused || l.of(sumOf(other.Token), now) == nil {
		t.Errorf("with the session key of another person: %v", err)
	}
	l.mu.Lock()
	l.forget(now.Add(time.Hour))
	l.mu.Unlock()
	if len(l.all)+len(l.tokens)+len(l.codes) != 0 {
		t.Error("expired sessions or tokens remain")
	}
}
