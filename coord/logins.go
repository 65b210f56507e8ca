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

// Self is the identity of a coordinator in the roster, with its key. The key only proves the identity of the
// coordinator to people who log in; it grants nothing else.
type Self struct {
	ID  string
	Key ed25519.PrivateKey
}

// TokenValidity is the lifetime of a token for reading. Clients renew it automatically.
const TokenValidity = 15 * time.Minute

// Limits of the memory for logins.
const (
	maxSessionsSigner = 100 // signers are limited by the roster
	maxTokensSession  = 20
	loginsPerSecond   = 1
	loginsAtOnce      = 50
	challengeWithin   = time.Minute
	codeWithin        = 30 * time.Second
)

// session is a valid login. Sessions are in memory only: after a restart everyone has to log in again.
type session struct {
	login *identity.VerifiedLogin
	begun time.Time
}

// secretSum is the hash of a token or code. Only hashes are stored, so a memory dump of a coordinator contains no
// token.
type secretSum [sha256.Size]byte

func sumOf(text string) secretSum { return sha256.Sum256([]byte(text)) }

type token struct {
	session *session
	expires time.Time
}

// logins holds the sessions of readers.
type logins struct {
	secret [32]byte // key of the nonces
	rates  limit.Names

	mu       sync.Mutex
	sessions map[envelope.KeyID]*session
	tokens   map[secretSum]token // of clients and browsers
	codes    map[secretSum]token // one-time codes that a browser exchanges for a token
	used     map[string]time.Time
}

func newLogins() *logins {
	l := &logins{sessions: map[envelope.KeyID]*session{}, tokens: map[secretSum]token{}, codes: map[secretSum]token{}, used: map[string]time.Time{}}
	_, _ = rand.Read(l.secret[:]) // never fails
	l.rates.PerSecond, l.rates.AtOnce = loginsPerSecond, loginsAtOnce
	return l
}

// nonce returns a challenge that needs no server state: the time, random bits, and a MAC of both and of the address
// that the client named.
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

// pace limits the tokens of a signer or of a session key per second, because each token takes memory until it expires.
func (l *logins) pace(who string) error {
	if _, ok := l.rates.Reserve(who, 1, 0); !ok {
		return writ.Errorf(writ.CodeRateLimited, "too many logins")
	}
	return nil
}

// spend consumes a nonce. It returns an error unless the nonce was issued here for address, within challengeWithin, and
// is unused.
func (l *logins) spend(n []byte, address string, now time.Time) error {
	stale := writ.Errorf(writ.CodeLoginRefused, "the challenge of this login is unknown, expired or already used").
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

// begin stores a session and returns its first token. A signer with maxSessionsSigner sessions loses the oldest one.
func (l *logins) begin(login *identity.VerifiedLogin, now time.Time) (api.LoginToken, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	id := envelope.IDOf(login.Session)
	if s := l.sessions[id]; s != nil && s.login.Signer != login.Signer {
		return api.LoginToken{}, writ.Errorf(writ.CodeLoginRefused, "the session key belongs to another person").WithHint("log in again: writ login")
	}
	if l.sessions[id] != nil {
		l.end(id) // and revoke its tokens, which no logout could reach any more
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

// end removes a session and its tokens. The caller holds mu.
func (l *logins) end(id envelope.KeyID) {
	s := l.sessions[id]
	delete(l.sessions, id)
	for _, m := range []map[secretSum]token{l.tokens, l.codes} {
		maps.DeleteFunc(m, func(_ secretSum, t token) bool { return t.session == s })
	}
}

// revoke removes a token.
func (l *logins) revoke(token secretSum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tokens, token)
}

// forget removes expired sessions, tokens and codes. The caller holds mu.
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

// trim makes room for a new token of a session: at maxTokensSession, it removes the tokens that expire first. The
// caller holds mu.
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

// issue creates a token of a session. It expires with the session at the latest. The caller holds mu.
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

// grant creates a token of a session that is still active. A session that ended a moment ago gets no more tokens.
func (l *logins) grant(in map[secretSum]token, s *session, now time.Time, validity time.Duration) (api.LoginToken, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	if l.sessions[envelope.IDOf(s.login.Session)] != s {
		return api.LoginToken{}, sessionEnded()
	}
	return l.issue(in, s, now, validity), nil
}

// exchange returns a token for a code. Each code works once.
func (l *logins) exchange(code string, now time.Time) (api.LoginToken, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := sumOf(code)
	t, ok := l.codes[sum]
	if !ok || !now.Before(t.expires) {
		return api.LoginToken{}, writ.Errorf(writ.CodeLoginRefused, "the code is unknown, already used, or older than %s", codeWithin).
			WithHint("get another one: writ login --web")
	}
	delete(l.codes, sum)
	return l.issue(l.tokens, t.session, now, t.session.login.Until.Sub(now)), nil // browsers cannot renew a token
}

// of returns the session of a token, nil if either has ended.
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

func sessionEnded() *writ.Error { return loginRequired("the session is unknown, or has ended") }

// Challenge starts a login. The signed answer proves that this is the coordinator in the roster: it covers the client's
// nonce and the address that the client uses.
func (c *Coordinator) Challenge(in api.NewChallenge) (api.LoginChallenge, error) {
	if c.Self == nil {
		return api.LoginChallenge{}, writ.Errorf(writ.CodeNotFound, "this coordinator has no key in the roster, so it accepts no logins")
	}
	if len(in.Nonce) != identity.NonceSize {
		return api.LoginChallenge{}, writ.Errorf(writ.CodeBadRequest, "nonce: got %d bytes, want %d", len(in.Nonce), identity.NonceSize)
	}
	if !slices.Contains(c.addresses.List(), in.URL) {
		return api.LoginChallenge{}, writ.Errorf(writ.CodeLoginRefused, "%s is not an address of this coordinator", in.URL).
			WithHint("use its address, %s", c.PublicURL)
	}
	now := c.Now()
	address := strings.TrimSuffix(in.URL, "/")
	signed, err := envelope.Sign(envelope.Challenge, c.Self.Key, identity.LoginChallenge{
		Coordinator: c.Self.ID, URL: address, Client: in.Nonce, Nonce: c.logins.nonce(address, now), Time: now.UnixMilli(),
	})
	return api.LoginChallenge{Signed: signed}, err
}

// Login starts a session for the person who signed a login for this coordinator.
func (c *Coordinator) Login(ctx context.Context, signed []byte) (api.LoginToken, error) {
	verifier, err := c.rosters.Verifier(ctx)
	if err != nil {
		return api.LoginToken{}, err
	}
	login, err := verifier.Login(signed)
	if err != nil {
		return api.LoginToken{}, err
	}
	if c.Self == nil || login.Coordinator != c.Self.ID || !slices.Contains(c.addresses.List(), login.URL) {
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

// NextToken returns another token to the holder of a session key.
func (c *Coordinator) NextToken(signed []byte) (api.LoginToken, error) {
	s, err := c.proved(signed)
	if err != nil {
		return api.LoginToken{}, err
	}
	return c.logins.grant(c.logins.tokens, s, c.Now(), TokenValidity)
}

// NewCode returns a one-time code for a browser to the holder of a session key.
func (c *Coordinator) NewCode(signed []byte) (api.LoginToken, error) {
	s, err := c.proved(signed)
	if err != nil {
		return api.LoginToken{}, err
	}
	return c.logins.grant(c.logins.codes, s, c.Now(), codeWithin)
}

// Logout ends the session whose key signed the request.
func (c *Coordinator) Logout(signed []byte) error {
	s, err := c.proved(signed)
	if err == nil {
		c.logins.mu.Lock()
		defer c.logins.mu.Unlock()
		c.logins.end(envelope.IDOf(s.login.Session))
	}
	return err
}

// proved returns the session whose key signed a request for this coordinator. Each request is valid once.
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

// session returns the active session of a key, or nil.
func (l *logins) session(id envelope.KeyID, now time.Time) *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sessions[id]; s != nil && now.Before(s.login.Until) {
		return s
	}
	return nil
}
