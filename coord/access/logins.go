package access

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/envelope"
)

// Self is the identity of a coordinator in the roster, with its key. The key only proves the identity of the coordinator
// during a login. It grants no right.
type Self struct {
	ID  string
	Key ed25519.PrivateKey
}

// Logins starts a session for each login that a person signed, and ends it.
type Logins struct {
	Self      *Self // nil if the coordinator accepts no logins
	PublicURL string
	// Addresses lists the addresses that a signed login may name.
	Addresses func() []string
	Rosters   Rosters
	Now       func() time.Time
	Log       *slog.Logger

	challenges *challenges
	sessions   *sessions
}

// NewLogins returns a copy of l without sessions.
func NewLogins(l Logins) *Logins {
	l.challenges, l.sessions = newChallenges(), newSessions()
	return &l
}

// sessionOf returns the session of a token, nil if either has ended.
func (l *Logins) sessionOf(token tokenSum) *session { return l.sessions.of(token, l.Now()) }

// exchange returns a token for a code. Each code works once.
func (l *Logins) exchange(code string) (api.LoginToken, error) {
	return l.sessions.exchange(code, l.Now())
}

// revoke removes a token.
func (l *Logins) revoke(token tokenSum) { l.sessions.revoke(token) }

// LoginRequired returns the error of a request without a valid login.
func LoginRequired(why string) *writ.Error {
	return writ.Errorf(writ.CodeLoginRequired, "%s", why).
		WithHint("commands of writ log in by themselves; `writ login --web` opens the dashboard")
}

func sessionEnded() *writ.Error { return LoginRequired("the session is unknown, or has ended") }

// Challenge starts a login. The signed answer proves that this is the coordinator in the roster: it covers the client's
// nonce and the address that the client uses.
func (l *Logins) Challenge(in api.NewChallenge) (api.LoginChallenge, error) {
	if l.Self == nil {
		return api.LoginChallenge{}, writ.Errorf(writ.CodeNotFound,
			"this coordinator has no key in the roster, so it accepts no logins")
	}
	if len(in.Nonce) != identity.NonceSize {
		return api.LoginChallenge{}, writ.Errorf(writ.CodeBadRequest, "nonce: got %d bytes, want %d", len(in.Nonce),
			identity.NonceSize)
	}
	if !slices.Contains(l.Addresses(), in.URL) {
		return api.LoginChallenge{}, writ.Errorf(writ.CodeLoginRefused, "%s is not an address of this coordinator", in.URL).
			WithHint("use its address, %s", l.PublicURL)
	}
	now := l.Now()
	address := strings.TrimSuffix(in.URL, "/")
	signed, err := envelope.Sign(envelope.Challenge, l.Self.Key, identity.LoginChallenge{
		Coordinator: l.Self.ID, URL: address, Client: in.Nonce, Nonce: l.challenges.nonce(address, now),
		Time: now.UnixMilli(),
	})
	return api.LoginChallenge{Signed: signed}, err
}

// Login verifies a signed login for this coordinator, and starts a session for its signer.
func (l *Logins) Login(ctx context.Context, signed []byte) (api.LoginToken, error) {
	verifier, err := l.Rosters.Verifier(ctx)
	if err != nil {
		return api.LoginToken{}, err
	}
	login, err := verifier.Login(signed)
	if err != nil {
		return api.LoginToken{}, err
	}
	if l.Self == nil || login.Coordinator != l.Self.ID || !slices.Contains(l.Addresses(), login.URL) {
		return api.LoginToken{}, writ.Errorf(writ.CodeLoginRefused, "the login was signed for the coordinator %s at %s",
			login.Coordinator, login.URL).
			WithHint("log in at this coordinator: writ login")
	}
	if err := l.sessions.pace(login.Signer); err != nil {
		return api.LoginToken{}, err
	}
	if err := l.challenges.spend(login.Nonce, login.URL, l.Now()); err != nil {
		return api.LoginToken{}, err
	}
	t, err := l.sessions.begin(login, l.Now())
	if err != nil {
		return t, err
	}
	l.Log.InfoContext(ctx, "logged in", "signer", login.Signer, "remote", RequestOf(ctx).Remote, "until", t.Until)
	return t, nil
}

// NextToken returns another token to the holder of a session key.
func (l *Logins) NextToken(signed []byte) (api.LoginToken, error) {
	s, err := l.proved(signed)
	if err != nil {
		return api.LoginToken{}, err
	}
	return l.sessions.grant(l.sessions.tokens, s, l.Now(), TokenValidity)
}

// NewCode returns a one-time code for a browser to the holder of a session key.
func (l *Logins) NewCode(signed []byte) (api.LoginToken, error) {
	s, err := l.proved(signed)
	if err != nil {
		return api.LoginToken{}, err
	}
	return l.sessions.grant(l.sessions.codes, s, l.Now(), codeWithin)
}

// Logout ends the session whose key signed the request.
func (l *Logins) Logout(signed []byte) error {
	s, err := l.proved(signed)
	if err == nil {
		l.sessions.remove(envelope.IDOf(s.login.Session))
	}
	return err
}

// proved returns the session whose key signed a request for this coordinator. Each request is valid once.
func (l *Logins) proved(signed []byte) (*session, error) {
	var s *session
	all, _, err := envelope.Open[identity.LoginRefresh](envelope.Refresh, signed,
		func(id envelope.KeyID) (ed25519.PublicKey, error) {
			if s = l.sessions.byKey(id, l.Now()); s == nil {
				return nil, sessionEnded()
			}
			return s.login.Session, nil
		})
	if err != nil {
		return nil, err
	}
	if len(all) != 1 || l.Self == nil || all[0].Coordinator != l.Self.ID {
		return nil, writ.Errorf(writ.CodeLoginRefused, "the request is for another coordinator").
			WithHint("log in again: writ login")
	}
	if err := l.sessions.pace(string(envelope.IDOf(s.login.Session))); err != nil {
		return nil, err
	}
	return s, l.challenges.spend(all[0].Nonce, all[0].URL, l.Now())
}
