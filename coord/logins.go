package coord

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/limit"
)

// Self is what the roster says of a coordinator, and its key. With the key it proves who it is to those who log in; nothing else follows from it.
type Self struct {
	ID  string
	Key ed25519.PrivateKey
}

// TokenValidity is how long a token for reading counts. Clients ask for the next one by themselves.
const TokenValidity = 15 * time.Minute

// Bounds of what is kept of those who have logged in.
const (
	maxSessionsSigner = 100 // signers are bounded by the roster
	maxTokensSession  = 20
	loginsPerSecond   = 1
	loginsAtOnce      = 50
	challengeWithin   = time.Minute
	codeWithin        = 30 * time.Second
)

// session is a login that counts here. Nothing of it is written down: after a restart everybody logs in again.
type session struct {
	login *identity.VerifiedLogin
	begun time.Time
}

// secretSum is what is kept of a token or code: a dump of the memory of a coordinator holds no token.
type secretSum [sha256.Size]byte

// sumOf is what is kept of a token or code.
func sumOf(text string) secretSum { return sha256.Sum256([]byte(text)) }

type token struct {
	session *session
	expires time.Time
}

// logins are the sessions of those who read here.
type logins struct {
	secret [32]byte // of the nonces
	rates  limit.Names

	mu       sync.Mutex
	sessions map[envelope.KeyID]*session
	tokens   map[secretSum]token // of clients and browsers
	codes    map[secretSum]token // that a browser may exchange for a token, once
	used     map[string]time.Time
}

func newLogins() *logins {
	l := &logins{sessions: map[envelope.KeyID]*session{}, tokens: map[secretSum]token{}, codes: map[secretSum]token{}, used: map[string]time.Time{}}
	_, _ = rand.Read(l.secret[:]) // never fails
	l.rates.PerSecond, l.rates.AtOnce = loginsPerSecond, loginsAtOnce
	return l
}

// nonce makes a challenge that needs no memory: its time, random bits, and a code over both and the address that the client named.
func (l *logins) nonce(address string, now time.Time) []byte {
	n := make([]byte, 16, identity.NonceSize)
	binary.BigEndian.PutUint64(n, uint64(now.UnixMilli()))
	_, _ = rand.Read(n[8:])
	return append(n, l.code(n, address)...)
}

func (l *logins) code(n []byte, address string) []byte {
	h := hmac.New(sha256.New, l.secret[:])
	h.Write(n)
	h.Write([]byte(address))
	return h.Sum(nil)[:identity.NonceSize-16]
}

// pace bounds how often a signer, or the key of a session, gets tokens: each is remembered for a while.
func (l *logins) pace(who string) error {
	if _, ok := l.rates.Reserve(who, 1, 0); !ok {
		return writ.Errorf(writ.CodeRateLimited, "too many logins")
	}
	return nil
}

// spend uses a nonce up: it must be one that was made here for the address, not long ago, and not have been used.
func (l *logins) spend(n []byte, address string, now time.Time) error {
	stale := writ.Errorf(writ.CodeLoginRefused, "the login answers no challenge of this coordinator, or an old one, or one that was answered before").
		WithHint("log in again: writ login")
	if len(n) != identity.NonceSize || !hmac.Equal(n[16:], l.code(n[:16], address)) {
		return stale
	}
	made := time.UnixMilli(int64(binary.BigEndian.Uint64(n)))
	if now.Sub(made) > challengeWithin || made.After(now.Add(time.Second)) {
		return stale
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.used, func(_ string, at time.Time) bool { return now.Sub(at) > 2*challengeWithin })
	if _, again := l.used[string(n)]; again {
		return stale
	}
	l.used[string(n)] = now
	return nil
}

// begin keeps a session and returns its first token. A signer who has very many loses the oldest.
func (l *logins) begin(login *identity.VerifiedLogin, now time.Time) (api.LoginToken, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	id := envelope.IDOf(login.Session)
	if s := l.sessions[id]; s != nil && s.login.Signer != login.Signer {
		return api.LoginToken{}, writ.Errorf(writ.CodeLoginRefused, "the key of the session is that of another one").WithHint("log in again: writ login")
	}
	if l.sessions[id] != nil {
		l.end(id) // with its tokens, which nothing could end any more
	}
	for full := true; full; {
		var oldest envelope.KeyID
		count := 0
		for key, s := range l.sessions {
			if s.login.Signer != login.Signer {
				continue
			}
			if count++; oldest == "" || s.begun.Before(l.sessions[oldest].begun) {
				oldest = key
			}
		}
		if full = count >= maxSessionsSigner; full {
			l.end(oldest)
		}
	}
	s := &session{login: login, begun: now}
	l.sessions[id] = s
	return l.issue(l.tokens, s, now, TokenValidity), nil
}

// end forgets a session with its tokens. The caller holds mu.
func (l *logins) end(id envelope.KeyID) {
	s := l.sessions[id]
	delete(l.sessions, id)
	for _, m := range []map[secretSum]token{l.tokens, l.codes} {
		maps.DeleteFunc(m, func(_ secretSum, t token) bool { return t.session == s })
	}
}

// revoke ends a token.
func (l *logins) revoke(token secretSum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tokens, token)
}

// forget forgets what has ended. The caller holds mu.
func (l *logins) forget(now time.Time) {
	for key, s := range l.sessions {
		if !now.Before(s.login.Until) {
			l.end(key)
		}
	}
	for _, m := range []map[secretSum]token{l.tokens, l.codes} {
		maps.DeleteFunc(m, func(_ secretSum, t token) bool { return !now.Before(t.expires) })
	}
}

// trim forgets the tokens of a session that end first, if it has very many. The caller holds mu.
func (l *logins) trim(in map[secretSum]token, s *session) {
	for {
		var first secretSum
		count := 0
		for sum, t := range in {
			if t.session != s {
				continue
			}
			if count++; count == 1 || t.expires.Before(in[first].expires) {
				first = sum
			}
		}
		if count < maxTokensSession {
			return
		}
		delete(in, first)
	}
}

// issue makes a token of a session. The caller holds mu.
func (l *logins) issue(in map[secretSum]token, s *session, now time.Time, validity time.Duration) api.LoginToken {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	text := base64.RawURLEncoding.EncodeToString(secret)
	expires := now.Add(validity)
	if expires.After(s.login.Until) {
		expires = s.login.Until
	}
	l.trim(in, s)
	in[sumOf(text)] = token{s, expires}
	return api.LoginToken{Token: text, Expires: expires.UTC(), Until: s.login.Until.UTC(), Name: s.login.Signer}
}

// grant makes a token of a session that goes on: of one that was ended a moment ago there are no more.
func (l *logins) grant(in map[secretSum]token, s *session, now time.Time, validity time.Duration) (api.LoginToken, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	if l.sessions[envelope.IDOf(s.login.Session)] != s {
		return api.LoginToken{}, sessionEnded()
	}
	return l.issue(in, s, now, validity), nil
}

// exchange gives a token for a code, once.
func (l *logins) exchange(code string, now time.Time) (api.LoginToken, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := sumOf(code)
	t, ok := l.codes[sum]
	if !ok || !now.Before(t.expires) {
		return api.LoginToken{}, writ.Errorf(writ.CodeLoginRefused, "the code is not known, was used before, or is older than %s", codeWithin).
			WithHint("get another one: writ login --web")
	}
	delete(l.codes, sum)
	return l.issue(l.tokens, t.session, now, t.session.login.Until.Sub(now)), nil // browsers have nothing to ask for the next one with
}

// of returns the session of a token, nil if one of them has ended.
func (l *logins) of(token secretSum, now time.Time) *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, ok := l.tokens[token]
	if !ok || !now.Before(t.expires) {
		return nil
	}
	return t.session
}

func loginRequired(why string) *writ.Error {
	return writ.Errorf(writ.CodeLoginRequired, "%s", why).WithHint("commands of writ log in by themselves; `writ login --web` opens the dashboard")
}

func sessionEnded() *writ.Error { return loginRequired("the session is not known here, or has ended") }

// Challenge answers somebody who wants to log in: it proves that this is the coordinator of the roster, about the nonce of the client and the address
// that it uses.
func (c *Coordinator) Challenge(in api.NewChallenge) (api.LoginChallenge, error) {
	if c.Self == nil {
		return api.LoginChallenge{}, writ.Errorf(writ.CodeNotFound, "this coordinator has no key in the roster, so it accepts no logins")
	}
	if len(in.Nonce) != identity.NonceSize {
		return api.LoginChallenge{}, writ.Errorf(writ.CodeBadRequest, "nonce: it has %d bytes, not %d", len(in.Nonce), identity.NonceSize)
	}
	if !slices.Contains(c.addresses(), in.URL) {
		return api.LoginChallenge{}, writ.Errorf(writ.CodeLoginRefused, "%s is no address of this coordinator", in.URL).
			WithHint("use its address, %s", c.PublicURL)
	}
	now := c.Now()
	address := strings.TrimSuffix(in.URL, "/")
	signed, err := envelope.Sign(envelope.Challenge, c.Self.Key, identity.LoginChallenge{
		Coordinator: c.Self.ID, URL: address, Client: in.Nonce, Nonce: c.logins.nonce(address, now), Time: now.UnixMilli(),
	})
	return api.LoginChallenge{Signed: signed}, err
}

// Login begins a session of the person who signed a text for this coordinator.
func (c *Coordinator) Login(ctx context.Context, signed []byte) (api.LoginToken, error) {
	verifier, err := c.verifier(ctx)
	if err != nil {
		return api.LoginToken{}, err
	}
	login, err := verifier.Login(signed)
	if err != nil {
		return api.LoginToken{}, err
	}
	if c.Self == nil || login.Coordinator != c.Self.ID || !slices.Contains(c.addresses(), login.URL) {
		return api.LoginToken{}, writ.Errorf(writ.CodeLoginRefused, "the login was signed for the coordinator %s at %s", login.Coordinator, login.URL).
			WithHint("log in at this one: writ login")
	}
	if err := c.logins.pace(login.Signer); err != nil {
		return api.LoginToken{}, err
	}
	if err := c.logins.spend(login.Nonce, login.URL, c.Now()); err != nil {
		return api.LoginToken{}, err
	}
	t, err := c.logins.begin(login, c.Now())
	if err != nil {
		return t, err
	}
	c.Log.InfoContext(ctx, "logged in", "signer", login.Signer, "remote", remote(ctx), "until", t.Until)
	return t, nil
}

// NextToken gives the owner of a session's key another token.
func (c *Coordinator) NextToken(signed []byte) (api.LoginToken, error) {
	s, err := c.proved(signed)
	if err != nil {
		return api.LoginToken{}, err
	}
	return c.logins.grant(c.logins.tokens, s, c.Now(), TokenValidity)
}

// NewCode gives the owner of a session's key a code for a browser.
func (c *Coordinator) NewCode(signed []byte) (api.LoginToken, error) {
	s, err := c.proved(signed)
	if err != nil {
		return api.LoginToken{}, err
	}
	return c.logins.grant(c.logins.codes, s, c.Now(), codeWithin)
}

// Logout ends a session, on the word of its key.
func (c *Coordinator) Logout(signed []byte) error {
	s, err := c.proved(signed)
	if err == nil {
		c.logins.mu.Lock()
		defer c.logins.mu.Unlock()
		c.logins.end(envelope.IDOf(s.login.Session))
	}
	return err
}

// proved returns the session whose key signed a request for this coordinator, which counts once.
func (c *Coordinator) proved(signed []byte) (*session, error) {
	var s *session
	all, _, err := envelope.Open[identity.LoginRefresh](envelope.Refresh, signed, func(id envelope.KeyID) (ed25519.PublicKey, error) {
		if s = c.logins.session(id, c.Now()); s == nil {
			return nil, sessionEnded()
		}
		return s.login.Session, nil
	})
	if err != nil {
		return nil, err
	}
	if len(all) != 1 || c.Self == nil || all[0].Coordinator != c.Self.ID {
		return nil, writ.Errorf(writ.CodeLoginRefused, "the request is for another coordinator").WithHint("log in again: writ login")
	}
	if err := c.logins.pace(string(envelope.IDOf(s.login.Session))); err != nil {
		return nil, err
	}
	return s, c.logins.spend(all[0].Nonce, all[0].URL, c.Now())
}

// session finds a session that goes on by the id of its key, nil if there is none.
func (l *logins) session(id envelope.KeyID, now time.Time) *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sessions[id]; s != nil && now.Before(s.login.Until) {
		return s
	}
	return nil
}
