package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"sync"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/limit"
)

// TokenValidity is the lifetime of a token for reading. Clients renew it automatically.
const TokenValidity = 15 * time.Minute

// Limits of the memory for logins.
const (
	maxSessionsSigner = 100 // sessions of one signer; the roster limits the signers
	maxTokensSession  = 20
	loginsPerSecond   = 1
	loginsAtOnce      = 50
	codeWithin        = 30 * time.Second
)

// session is a valid login. Sessions are in memory only: after a restart everyone has to log in again.
type session struct {
	login *identity.VerifiedLogin
	begun time.Time
}

// tokenSum is the hash of a token or code. Only hashes are stored, so a memory dump of a coordinator contains no
// token.
type tokenSum [sha256.Size]byte

func sumOf(text string) tokenSum { return sha256.Sum256([]byte(text)) }

type token struct {
	session *session
	expires time.Time
}

// sessions holds the valid logins, and their tokens and codes.
type sessions struct {
	rates limit.Names // rate of new tokens by signer or session key

	mu     sync.Mutex
	all    map[envelope.KeyID]*session
	tokens map[tokenSum]token // of clients and browsers
	codes  map[tokenSum]token // one-time codes that a browser exchanges for a token
}

func newSessions() *sessions {
	l := &sessions{all: map[envelope.KeyID]*session{}, tokens: map[tokenSum]token{}, codes: map[tokenSum]token{}}
	l.rates.PerSecond, l.rates.AtOnce = loginsPerSecond, loginsAtOnce
	return l
}

// pace limits the tokens of a signer or of a session key per second, because each token takes memory until it expires.
func (l *sessions) pace(who string) error {
	if _, ok := l.rates.Reserve(who, 1, 0); !ok {
		return writ.Errorf(writ.CodeRateLimited, "too many logins")
	}
	return nil
}

// begin stores a session and returns its first token. If the signer has maxSessionsSigner sessions, the oldest of them
// ends.
func (l *sessions) begin(login *identity.VerifiedLogin, now time.Time) (api.LoginToken, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	id := envelope.IDOf(login.Session)
	if s := l.all[id]; s != nil && s.login.Signer != login.Signer {
		return api.LoginToken{}, writ.Errorf(writ.CodeLoginRefused, "the session key belongs to another person").
			WithHint("log in again: writ login")
	}
	if l.all[id] != nil {
		l.end(id) // also revokes the old tokens, which a logout of the new session would not revoke
	}
	for full := true; full; {
		var oldest envelope.KeyID
		count := 0
		for key, s := range l.all {
			if s.login.Signer != login.Signer {
				continue
			}
			if count++; oldest == "" || s.begun.Before(l.all[oldest].begun) {
				oldest = key
			}
		}
		if full = count >= maxSessionsSigner; full {
			l.end(oldest)
		}
	}
	s := &session{login: login, begun: now}
	l.all[id] = s
	return l.issue(l.tokens, s, now, TokenValidity), nil
}

// end removes a session and its tokens. The caller holds mu.
func (l *sessions) end(id envelope.KeyID) {
	s := l.all[id]
	delete(l.all, id)
	for _, m := range []map[tokenSum]token{l.tokens, l.codes} {
		maps.DeleteFunc(m, func(_ tokenSum, t token) bool { return t.session == s })
	}
}

// remove ends a session by its key.
func (l *sessions) remove(id envelope.KeyID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(id)
}

// revoke removes a token.
func (l *sessions) revoke(token tokenSum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tokens, token)
}

// forget removes expired sessions, tokens and codes. The caller holds mu.
func (l *sessions) forget(now time.Time) {
	for key, s := range l.all {
		if !now.Before(s.login.Until) {
			l.end(key)
		}
	}
	for _, m := range []map[tokenSum]token{l.tokens, l.codes} {
		maps.DeleteFunc(m, func(_ tokenSum, t token) bool { return !now.Before(t.expires) })
	}
}

// trim makes room for a new token of a session: at maxTokensSession, it removes the tokens that expire first. The
// caller holds mu.
func (l *sessions) trim(in map[tokenSum]token, s *session) {
	for {
		var first tokenSum
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

// issue creates a token of a session. The token expires with the session at the latest. The caller holds mu.
func (l *sessions) issue(in map[tokenSum]token, s *session, now time.Time, validity time.Duration) api.LoginToken {
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

// grant creates a token of a session. It returns an error if the session has ended in the meantime.
func (l *sessions) grant(
	in map[tokenSum]token, s *session, now time.Time, validity time.Duration,
) (api.LoginToken, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	if l.all[envelope.IDOf(s.login.Session)] != s {
		return api.LoginToken{}, sessionEnded()
	}
	return l.issue(in, s, now, validity), nil
}

// exchange returns a token for a code. Each code works once.
func (l *sessions) exchange(code string, now time.Time) (api.LoginToken, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := sumOf(code)
	t, ok := l.codes[sum]
	if !ok || !now.Before(t.expires) {
		return api.LoginToken{}, writ.Errorf(writ.CodeLoginRefused, "the code is unknown, already used, or older than %s",
			codeWithin).
			WithHint("get another one: writ login --web")
	}
	delete(l.codes, sum)
	return l.issue(l.tokens, t.session, now, t.session.login.Until.Sub(now)), nil // browsers cannot renew a token
}

// of returns the session of a token, nil if either has ended.
func (l *sessions) of(token tokenSum, now time.Time) *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, ok := l.tokens[token]
	if !ok || !now.Before(t.expires) {
		return nil
	}
	return t.session
}

// byKey returns the active session of a key, or nil.
func (l *sessions) byKey(id envelope.KeyID, now time.Time) *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.all[id]; s != nil && now.Before(s.login.Until) {
		return s
	}
	return nil
}
