package client

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
	"writ/coord/api/apiclient"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
)

// session is a stored login at one coordinator: the current token, and the key that obtains the next token without the
// user.
type session struct {
	Coordinator string    `json:"coordinator"`
	Name        string    `json:"name"`
	Key         []byte    `json:"key"` // seed of the session key
	Token       string    `json:"token"`
	Expires     time.Time `json:"expires"` // expiry of the token
	Until       time.Time `json:"until"`   // expiry of the session
}

// soon is the remaining lifetime below which a token or session is no longer used.
const soon = 10 * time.Second

// logins holds the sessions of a client, one per coordinator. The files are readable by their owner only.
type logins struct {
	client *Client
	dir    string
	http   *http.Client // sends requests without login

	mu   sync.Mutex
	have map[string]*session // by coordinator address
}

// path returns the file of the session with a coordinator. It depends on the key, because another key belongs to
// another signer.
func (l *logins) path(address string) string {
	of := strings.Join([]string{string(l.client.Context.Cluster), address, l.client.Keys.Spec}, "\x00")
	return filepath.Join(l.dir, "logins", writ.DigestOf([]byte(of)).String()+".json")
}

// token returns a valid token for a coordinator, or "".
func (l *logins) token(address string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.kept(address); s != nil && time.Now().Before(s.Expires.Add(-soon)) {
		return s.Token
	}
	return ""
}

// kept returns the stored session with a coordinator, or nil. The caller must hold mu.
func (l *logins) kept(address string) *session {
	if s, ok := l.have[address]; ok {
		return s
	}
	var s *session
	if text, err := os.ReadFile(l.path(address)); err == nil && json.Unmarshal(text, &s) != nil {
		s = nil // written by another version; the next login replaces it
	}
	l.have[address] = s
	return s
}

// keep stores a session; nil deletes it. A failed write is ignored, because it only costs another login.
func (l *logins) keep(address string, s *session) {
	l.have[address] = s
	if s == nil {
		_ = os.Remove(l.path(address))
		return
	}
	text, err := json.Marshal(s)
	if err == nil && os.MkdirAll(filepath.Dir(l.path(address)), 0o700) == nil {
		_ = config.WriteFile(l.path(address), text)
	}
}

// login obtains a token for a coordinator. shown is the rejected token, or "" if none was sent. It uses the key of a
// valid session, otherwise a signature of the user. anew forces a signature.
func (l *logins) login(ctx context.Context, address, shown string, anew bool) (*session, error) {
	at, err := apiclient.NewClient(address, apiclient.WithHTTPClient(l.http))
	if err != nil {
		return nil, err
	}
	roster, err := l.client.Roster.Known(ctx) // before locking, because it may query the coordinator
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.kept(address); s != nil && !anew && s.Token != shown && time.Now().Before(s.Expires.Add(-soon)) {
		return s, nil // another request has already logged in
	}
	challenge, err := challenged(ctx, at, address, roster)
	if err != nil {
		return nil, err
	}
	if s := l.kept(address); s != nil && !anew && time.Now().Before(s.Until.Add(-soon)) &&
		s.Coordinator == challenge.Coordinator {
		next, err := refreshed(ctx, at, s, challenge)
		switch {
		case err == nil:
			l.keep(address, next)
			return next, nil
		case writ.CodeOf(err) != writ.CodeLoginRequired:
			return nil, err // another signature of the user would not help
		}
		if challenge, err = challenged(ctx, at, address, roster); err != nil { // the coordinator no longer knows the session
			return nil, err
		}
	}
	s, err := l.begun(ctx, at, roster, challenge)
	if err == nil {
		l.keep(address, s)
	}
	return s, err
}

// LoggedIn wraps the transport `by`. It adds the session token to requests and logs in if a coordinator requires it.
func (c *Client) LoggedIn(by http.RoundTripper) http.RoundTripper { return loggingIn{by, c.logins} }

// challenged requests a login challenge. It verifies that a coordinator of the roster signed it for this client and
// address.
func challenged(
	ctx context.Context, at *apiclient.Client, address string, roster *identity.Roster,
) (identity.LoginChallenge, error) {
	nonce := identity.NewChallenge()
	answer, err := api.Answer[api.LoginChallenge](at.Challenge(ctx, api.NewChallenge{Nonce: nonce, URL: address}))
	if err != nil {
		return identity.LoginChallenge{}, err
	}
	var keys []ed25519.PublicKey
	for _, c := range roster.Coordinators {
		keys = append(keys, c.Key)
	}
	all, by, err := envelope.Open[identity.LoginChallenge](envelope.Challenge, answer.Signed, envelope.Only(keys...))
	if err != nil || len(all) != 1 {
		return identity.LoginChallenge{}, writ.Errorf(writ.CodeUnverified,
			"no coordinator of the roster signed the challenge for the login").
			WithHint("check the address; the login was not signed")
	}
	c := all[0]
	self, there := roster.Coordinator(c.Coordinator), roster.Coordinators.At(address)
	if self == nil || there != nil && there.ID != self.ID || envelope.IDOf(self.Key) != by || c.URL != address ||
		!bytes.Equal(c.Client, nonce) || len(c.Nonce) != identity.NonceSize {
		return identity.LoginChallenge{}, writ.Errorf(writ.CodeUnverified,
			"the challenge for the login is for another coordinator, address or client").
			WithHint("check the address; the login was not signed")
	}
	return c, nil
}

// proof signs a challenge with the session key.
func (s *session) proof(challenge identity.LoginChallenge) (api.SessionProof, error) {
	if len(s.Key) != ed25519.SeedSize {
		return api.SessionProof{}, writ.Errorf(writ.CodeLoginRequired, "the stored session has no key")
	}
	signed, err := envelope.Sign(envelope.Refresh, ed25519.NewKeyFromSeed(s.Key), identity.LoginRefresh{
		Coordinator: challenge.Coordinator, URL: challenge.URL, Nonce: challenge.Nonce,
	})
	return api.SessionProof{Signed: signed}, err
}

// prove calls `ask` with a proof by the session key, which authorises the request that `ask` sends.
func (l *logins) prove(
	ctx context.Context, address string, s *session, ask func(at *apiclient.Client, proof api.SessionProof) error,
) error {
	at, err := apiclient.NewClient(address, apiclient.WithHTTPClient(l.http))
	if err != nil {
		return err
	}
	roster, err := l.client.Roster.Known(ctx)
	if err != nil {
		return err
	}
	challenge, err := challenged(ctx, at, address, roster)
	if err != nil {
		return err
	}
	proof, err := s.proof(challenge)
	if err != nil {
		return err
	}
	return ask(at, proof)
}

// refreshed obtains the next token with the session key.
func refreshed(
	ctx context.Context, at *apiclient.Client, s *session, challenge identity.LoginChallenge,
) (*session, error) {
	proof, err := s.proof(challenge)
	if err != nil {
		return nil, err
	}
	t, err := api.Answer[api.LoginToken](at.NextToken(ctx, proof))
	if err != nil {
		return nil, err
	}
	next := *s
	next.Token, next.Expires, next.Until = t.Token, t.Expires, t.Until
	return &next, nil
}

// clocksAgree rejects a login that the coordinator would reject because of the time. The error shows both clocks; the
// coordinator could show only its own.
func clocksAgree(here, there time.Time) error {
	off := here.Sub(there)
	var code writ.Code
	switch {
	case off > identity.Skew:
		code = writ.CodeNotYetValid
	case -off > identity.LoginValidity+identity.Skew:
		code = writ.CodeExpired
	default:
		return nil
	}
	const layout = "2006-01-02 15:04:05 MST"
	return writ.Errorf(code,
		"the clock of this machine shows %s, the clock of the coordinator %s: one of them is wrong by %s",
		here.UTC().Format(layout), there.UTC().Format(layout), off.Abs().Round(time.Second)).
		WithHint("set the clock of this machine or of the coordinator; the login was not signed")
}

// begun logs in with a signature of the user's key.
func (l *logins) begun(
	ctx context.Context, at *apiclient.Client, roster *identity.Roster, challenge identity.LoginChallenge,
) (*session, error) {
	key, err := l.client.Keys.Open(ctx, func(k ssh.PublicKey) bool { return PrincipalOf(roster, k) != "" })
	if err != nil {
		return nil, err
	}
	defer key.Close()
	by, err := signatory(roster, key, time.Now())
	if err != nil {
		return nil, err
	}
	digest, err := roster.Digest()
	if err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if err := clocksAgree(now, time.UnixMilli(challenge.Time)); err != nil {
		return nil, err
	}
	login := identity.Login{
		Cluster: roster.Cluster, Coordinator: challenge.Coordinator, URL: challenge.URL, Roster: roster.Version,
		RosterDigest: digest, Signer: by.Name, Certificate: identity.CertificateDigest(by.Key), Session: public,
		Nonce: challenge.Nonce, Created: now, Expires: now.Add(identity.LoginValidity),
		Until: now.Add(identity.SessionValidity),
	}
	if c := by.Certificate(roster); c != nil && c.Until.Before(login.Until) {
		login.Until = c.Until
	}
	text, err := login.Text()
	if err != nil {
		return nil, err
	}
	armored, err := key.Sign(sshsig.LoginNamespace, text)
	if err != nil {
		return nil, err
	}
	t, err := api.Answer[api.LoginToken](at.LoginWithBody(ctx, api.SignedType,
		bytes.NewReader(sshsig.Join(text, armored))))
	if err != nil {
		return nil, err
	}
	return &session{
		Coordinator: challenge.Coordinator, Name: by.Name, Key: private.Seed(), Token: t.Token, Expires: t.Expires,
		Until: t.Until,
	}, nil
}

// loggingIn is an http.RoundTripper that sends the session token and logs in if a coordinator requires it.
type loggingIn struct {
	http.RoundTripper
	logins *logins
}

// RoundTrip implements http.RoundTripper.
func (t loggingIn) RoundTrip(r *http.Request) (*http.Response, error) {
	address := r.URL.Scheme + "://" + r.URL.Host
	token := t.logins.token(address)
	if token != "" {
		r = withToken(r, token)
	}
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusUnauthorized || r.Body != nil && r.GetBody == nil {
		return response, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	_ = response.Body.Close()
	s, err := t.logins.login(r.Context(), address, token, false)
	if err != nil {
		return nil, err
	}
	again := withToken(r, s.Token)
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return t.RoundTripper.RoundTrip(again)
}

func withToken(r *http.Request, token string) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// Session is a login as shown to the user.
type Session struct {
	Coordinator string    `json:"coordinator"` // address of the coordinator
	Name        string    `json:"name"`
	Expires     time.Time `json:"token_expires"`
	Until       time.Time `json:"until"`
	Token       string    `json:"-"`
	Web         string    `json:"web,omitempty"` // one-time login address for a browser
}

// Login logs in at the first coordinator of the context with a signature of the user. If web is set, it also returns a
// login address for a browser.
func (c Sessions) Login(ctx context.Context, web bool) (Session, error) {
	address := addressOf(c.client.Context.Servers[0])
	s, err := c.client.logins.login(ctx, address, "", true)
	if err != nil {
		return Session{}, err
	}
	shown := Session{Coordinator: address, Name: s.Name, Expires: s.Expires, Until: s.Until, Token: s.Token}
	if !web {
		return shown, nil
	}
	var code api.LoginToken
	err = c.client.logins.prove(ctx, address, s, func(at *apiclient.Client, proof api.SessionProof) (err error) {
		code, err = api.Answer[api.LoginToken](at.NewCode(ctx, proof))
		return err
	})
	if err != nil {
		return Session{}, err
	}
	shown.Web = address + "/login#" + url.PathEscape(code.Token)
	return shown, nil
}

// addressOf returns the scheme and host of a server's URL. It omits a user and password, which would be for a proxy.
func addressOf(server string) string {
	u, err := url.Parse(strings.TrimSuffix(server, "/"))
	if err != nil {
		return server
	}
	return u.Scheme + "://" + u.Host
}

// Logout ends the sessions of this client, at the coordinators and in the local files. It returns the errors of
// coordinators that it could not reach; their sessions expire.
func (c Sessions) Logout(ctx context.Context) error {
	var failed error
	for _, server := range c.client.Context.Servers {
		address := addressOf(server)
		c.client.logins.mu.Lock()
		s := c.client.logins.kept(address)
		c.client.logins.keep(address, nil)
		c.client.logins.mu.Unlock()
		if s == nil {
			continue
		}
		err := c.client.logins.prove(ctx, address, s, func(at *apiclient.Client, proof api.SessionProof) error {
			response, err := at.Logout(ctx, proof)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if response.StatusCode == http.StatusNoContent || response.StatusCode == http.StatusUnauthorized {
				return nil
			}
			return writ.Errorf(writ.CodeUnreachable, "%s did not end the session: %s", address, response.Status)
		})
		failed = errors.Join(failed, err)
	}
	return failed
}
