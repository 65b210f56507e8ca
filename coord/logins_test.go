package coord

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/ledger"
	"writ/ledger/sqlstore"
	"writ/supervisor/link"
)

const frontID = "0192f6c2-0000-7000-8000-0000000000f1"

// namedRoster returns the first roster with the coordinator, and with carol as a reader of web-shop.
func namedRoster(t *testing.T, address string, change func(r *identity.Roster)) *identity.Roster {
	t.Helper()
	r, err := firstRoster().Successor(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r.Coordinators = []identity.Coordinator{{ID: frontID, Name: "front", Key: key("front").Public().(ed25519.PublicKey), URLs: []string{address}}}
	for _, name := range []string{"carol", "dave"} {
		r.Principals = append(r.Principals, identity.Principal{Name: name, Kind: identity.Person, State: identity.Active,
			Keys: []identity.PrincipalKey{{Key: signer(name).PublicKey(), State: identity.Active}}})
	}
	r.Bindings = append(r.Bindings, identity.Binding{Principal: "carol", Role: identity.Viewer, Project: shop})
	if change != nil {
		change(r)
	}
	return r
}

// startNamed serves a coordinator that is named in the roster, so that reading needs a login.
func startNamed(t *testing.T, change func(c *Config), tune ...func(c *Coordinator)) *fixture {
	t.Helper()
	p := start(t, func(c *Config) {
		c.Self = &access.Self{ID: frontID, Key: key("front")}
		if change != nil {
			change(c)
		}
	}, tune...)
	if _, err := p.AddRoster(t.Context(), signedRoster(t, namedRoster(t, p.PublicURL, nil))); err != nil {
		t.Fatal(err)
	}
	return p
}

// challenge requests a challenge.
func (p *fixture) challenge() identity.LoginChallenge {
	p.t.Helper()
	answer, err := api.Answer[api.LoginChallenge](p.client.Challenge(p.t.Context(), api.NewChallenge{Nonce: bytes.Repeat([]byte{7}, identity.NonceSize), URL: p.PublicURL}))
	if err != nil {
		p.t.Fatal(err)
	}
	all, _, err := envelope.Open[identity.LoginChallenge](envelope.Challenge, answer.Signed, envelope.Only(key("front").Public().(ed25519.PublicKey)))
	if err != nil {
		p.t.Fatal(err)
	}
	return all[0]
}

// textFor returns the login that a person signs for a challenge.
func (p *fixture) textFor(who string, c identity.LoginChallenge) *identity.Login {
	p.t.Helper()
	digest, err := p.rosters.Current().Digest()
	if err != nil {
		p.t.Fatal(err)
	}
	now := time.Now()
	return &identity.Login{
		Cluster: firstRoster().Cluster, Coordinator: c.Coordinator, URL: c.URL, Roster: p.rosters.Current().Version, RosterDigest: digest, Signer: who,
		Session: key("session of " + who).Public().(ed25519.PublicKey), Nonce: c.Nonce, Created: now, Expires: now.Add(identity.LoginValidity), Until: now.Add(identity.SessionValidity),
	}
}

func (p *fixture) handIn(signed []byte) (api.LoginToken, error) {
	return api.Answer[api.LoginToken](p.client.LoginWithBody(p.t.Context(), api.SignedType, bytes.NewReader(signed)))
}

// token logs a person in.
func (p *fixture) token(who string) string {
	p.t.Helper()
	t, err := p.handIn(signed(p.t, who, sshsig.LoginNamespace, p.textFor(who, p.challenge())))
	if err != nil {
		p.t.Fatal(err)
	}
	return t.Token
}

// proof returns the proof of a session key for a challenge.
func (p *fixture) proof(k ed25519.PrivateKey) api.SessionProof {
	p.t.Helper()
	c := p.challenge()
	signed, err := envelope.Sign(envelope.Refresh, k, identity.LoginRefresh{Coordinator: c.Coordinator, URL: c.URL, Nonce: c.Nonce})
	if err != nil {
		p.t.Fatal(err)
	}
	return api.SessionProof{Signed: signed}
}

// as sends a request with a token, "" for none, and returns status and body.
func (p *fixture) as(token, method, path string) (int, string) {
	p.t.Helper()
	response, err := p.request(method, path, func(r *http.Request) {
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
	})
	return p.read(response, err)
}

// A route without a row in the table is refused to everyone; a row without a route is a mistake.
func TestEveryRouteHasAScope(t *testing.T) {
	p := start(t, nil)
	if diff := cmp.Diff(access.Routes(), routesOf(t, p)); diff != "" {
		t.Errorf("in the table (-), in the router (+):\n%s", diff)
	}
}

// A login is valid once, for a minute, at this coordinator, and for people in the roster.
//
// Promise: Connections and certificates: A login is valid once, within a minute, at one coordinator and address, and
// the client signs it only for a coordinator of the roster.
// How: Both sides sign both nonces and the address.
// Also: TestALoginIsSignedForACoordinatorOfTheRosterOnly.
func TestLoginIsValidOnceAtItsCoordinator(t *testing.T) {
	var late atomic.Int64
	p := startNamed(t, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) } })
	good := signed(t, "carol", sshsig.LoginNamespace, p.textFor("carol", p.challenge()))
	if _, err := p.handIn(good); err != nil {
		t.Fatal(err)
	}
	refuses := func(what string, signed []byte, want writ.Code) {
		t.Helper()
		_, err := p.handIn(signed)
		if writ.CodeOf(err) != want {
			t.Errorf("%s: %v", what, err)
		}
	}
	refuses("played back", good, writ.CodeLoginRefused)
	change := func(do func(l *identity.Login)) []byte {
		l := p.textFor("carol", p.challenge())
		do(l)
		return signed(t, l.Signer, sshsig.LoginNamespace, l)
	}
	refuses("for another coordinator", change(func(l *identity.Login) { l.Coordinator = writ.NewUUID() }), writ.CodeLoginRefused)
	refuses("at another address", change(func(l *identity.Login) { l.URL = "https://evil.example.org" }), writ.CodeLoginRefused)
	refuses("at another spelling", change(func(l *identity.Login) { l.URL = strings.Replace(l.URL, "127.0.0.1", "localhost", 1) }), writ.CodeLoginRefused)
	refuses("with a nonce of its own", change(func(l *identity.Login) { l.Nonce = make([]byte, identity.NonceSize) }), writ.CodeLoginRefused)
	refuses("of another cluster", change(func(l *identity.Login) { l.Cluster = writ.ClusterID(writ.DigestOf(nil).String()) }), writ.CodeWrongCluster)
	refuses("of a newer roster", change(func(l *identity.Login) { l.Roster++ }), writ.CodeRosterTooOld)
	refuses("of another roster", change(func(l *identity.Login) { l.RosterDigest[0]++ }), writ.CodeRosterFork)
	refuses("of nobody", change(func(l *identity.Login) { l.Signer = "zoe" }), writ.CodeSignerUnknown)
	refuses("of a person without a role", change(func(l *identity.Login) { l.Signer = "dave" }), writ.CodeRoleMissing)
	refuses("by another person", signed(t, "bob", sshsig.LoginNamespace, p.textFor("carol", p.challenge())), writ.CodeSignerUnknown)
	refuses("signed as a statement", signed(t, "carol", sshsig.StatementNamespace, p.textFor("carol", p.challenge())), writ.CodeSignatureNamespace)
	refuses("cut off", good[:len(good)/2], writ.CodeSignatureMalformed)
	old := change(func(*identity.Login) {})
	late.Store(int64(3 * time.Minute))
	refuses("old", old, writ.CodeExpired)
	stale := p.challenge() // created three minutes in the future
	late.Store(0)
	refuses("of the future", signed(t, "carol", sshsig.LoginNamespace, p.textFor("carol", stale)), writ.CodeLoginRefused)
}

// Reading ends with the roster that permitted it, with the token, and with the session. Streams end too.
//
// Promise: Readers and roles: Read access, including open streams and pending requests, ends with the role, the key,
// the token or the session.
// How: Each request and each stream message checks the newest roster and the token.
// Also: TestNewRosterWakesPages, TestStreamEndsWithItsTokenAndSession,
// TestStreamSendsNoEventAfterItsSessionEnds, TestAnswerAfterTheRoleEndedIsWithheld.
func TestReadingEndsWithTheRoleTheTokenAndTheSession(t *testing.T) {
	var late atomic.Int64
	p := startNamed(t, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) } })
	carol, bob := p.token("carol"), p.token("bob")
	if status, body := p.as(carol, http.MethodGet, "/v1/runs"); status != http.StatusOK {
		t.Fatalf("status %d, %s", status, body)
	}
	late.Store(int64(access.TokenValidity))
	status, body := p.as(carol, http.MethodGet, "/v1/runs")
	wantProblem(t, "with a token that has ended", status, body, writ.CodeLoginRequired)

	next := func(k ed25519.PrivateKey) (api.LoginToken, error) {
		return api.Answer[api.LoginToken](p.client.NextToken(t.Context(), p.proof(k)))
	}
	fresh, err := next(key("session of carol"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next(key("carol")); writ.CodeOf(err) != writ.CodeLoginRequired {
		t.Errorf("with a key of no session: %v", err)
	}
	if status, body := p.as(fresh.Token, http.MethodGet, "/v1/runs"); status != http.StatusOK {
		t.Errorf("with the next token: status %d, %s", status, body)
	}
	late.Store(int64(identity.SessionValidity))
	if _, err := next(key("session of carol")); writ.CodeOf(err) != writ.CodeLoginRequired {
		t.Errorf("after the session: %v", err)
	}
	late.Store(0)

	carol, bob = p.token("carol"), p.token("bob")
	response, err := p.request(http.MethodGet, "/v1/events", func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+bob)
		r.Header.Set("Accept", "text/event-stream")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	after, err := p.rosters.Current().Successor(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for i := range after.Principals {
		if name := after.Principals[i].Name; name == "bob" || name == "carol" {
			after.Principals[i].Keys[0].State = identity.Removed
		}
	}
	if _, err := p.AddRoster(t.Context(), signedRoster(t, after)); err != nil {
		t.Fatal(err)
	}
	for who, token := range map[string]string{"carol": carol, "bob": bob} {
		status, body := p.as(token, http.MethodGet, "/v1/runs")
		wantProblem(t, who+" after the roster", status, body, writ.CodeSignerUnknown)
	}
	if rest, err := io.ReadAll(lines); err != nil { // ends without a request
		t.Errorf("the stream ended with %v after %q", err, rest)
	}
}

// A new roster wakes pages at once, because it may revoke the reader's rights. Otherwise an idle page would stay open
// for a second longer.
func TestNewRosterWakesPages(t *testing.T) {
	p := startNamed(t, nil)
	news := p.news.Next()
	next, err := p.rosters.Current().Successor(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.AddRoster(t.Context(), signedRoster(t, next)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-news:
	default:
		t.Error("pages sleep on")
	}
}

// A stream ends with the token that opened it, and with its session. It sends no later event.
func TestStreamEndsWithItsTokenAndSession(t *testing.T) {
	var late atomic.Int64
	p := startNamed(t, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) } })
	s := connect(p, vienna, nil)
	sub, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	for what, end := range map[string]func(){
		"token": func() { late.Store(int64(access.TokenValidity)) },
		"session": func() {
			response, err := p.client.Logout(t.Context(), p.proof(key("session of bob")))
			if status, body := p.read(response, err); status != http.StatusNoContent {
				t.Fatalf("logout: status %d, %s", status, body)
			}
		},
	} {
		late.Store(0)
		token := p.token("bob")
		var streams []*http.Response
		for _, path := range []string{"/v1/runs/" + string(sub.Run) + "/events", "/v1/events", "/live/"} {
			response, err := p.request(http.MethodGet, path, func(r *http.Request) {
				r.Header.Set("Authorization", "Bearer "+token)
				r.Header.Set("Accept", "text/event-stream")
			})
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if _, err := response.Body.Read(make([]byte, 1)); err != nil || response.StatusCode != http.StatusOK {
				t.Fatalf("%s: status %d, %v", path, response.StatusCode, err)
			}
			streams = append(streams, response)
		}
		end()
		late.Add(1)
		s.tell(writ.Event{Log: &writ.LogLine{Run: sub.Run, Ordinal: 1, Text: "said after the end of the " + what}})
		for _, stream := range streams {
			rest, err := io.ReadAll(stream.Body) // until it ends
			if err != nil || strings.Contains(string(rest), "said after the end of the "+what) {
				t.Errorf("%s, after the end of its %s: %v, %s", stream.Request.URL.Path, what, err, rest)
			}
		}
	}
}

// interrupted is a ledger that calls a function while a stream reads it.
type interrupted struct {
	ledger.Ledger
	during func()
}

func (l *interrupted) EncodedEvents(ctx context.Context, after int64, filter ledger.EventFilter, max int) (events []ledger.EncodedEvent, more bool, err error) {
	if filter.Run != "" {
		l.during()
	}
	return l.Ledger.EncodedEvents(ctx, after, filter, max)
}

func (l *interrupted) Runs(ctx context.Context, filter ledger.RunFilter, page ledger.Page) (ledger.List[ledger.Run], error) {
	l.during()
	return l.Ledger.Runs(ctx, filter, page)
}

// If a session ends while a stream reads new events, the stream ends without sending them.
func TestStreamSendsNoEventAfterItsSessionEnds(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	l := &interrupted{Ledger: store, during: func() {}}
	p := startNamed(t, func(c *Config) { c.Ledger = l })
	t.Cleanup(func() {
		p.stop()
		store.Close()
	})
	sub, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/runs/" + string(sub.Run) + "/events", "/live/"} {
		token := p.token("bob")
		l.during = sync.OnceFunc(func() {
			p.read(p.client.Logout(t.Context(), p.proof(key("session of bob"))))
			if err := store.Reject(t.Context(), sub.Payload, writ.SubmissionRefused, writ.Errorf(writ.CodeConflict, "after the end")); err != nil && writ.CodeOf(err) != writ.CodeConflict {
				t.Error(err)
			}
		})
		response, err := p.request(http.MethodGet, path, func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Accept", "text/event-stream")
		})
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body) // until it ends
		response.Body.Close()
		if err != nil || strings.Contains(string(text), "after the end") {
			t.Errorf("%s: %v, %s", path, err, text)
		}
	}
}

// An answer of a datacenter is withheld if the caller's role ended meanwhile.
func TestAnswerAfterTheRoleEndedIsWithheld(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	p := startNamed(t, nil)
	connect(p, vienna, func(s *supervisor) {
		s.dialer.Handle = func(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
			if verb == link.VerbLogs {
				asked <- struct{}{}
				<-goOn
			}
			return s.handle(ctx, verb, params)
		}
	})
	sub := p.runFor(shop, "web-shop", "hello.tengo")
	carol := p.token("carol")
	type answer struct {
		status int
		body   string
	}
	told := make(chan answer, 1)
	go func() {
		status, body := p.as(carol, http.MethodGet, "/v1/runs/"+string(sub.Run)+"/logs")
		told <- answer{status, body}
	}()
	<-asked
	next, err := p.rosters.Current().Successor(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	next.Bindings = slices.DeleteFunc(next.Bindings, func(b identity.Binding) bool { return b.Principal == "carol" })
	if _, err := p.AddRoster(t.Context(), signedRoster(t, next)); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	a := <-told
	wantProblem(t, "lines that came later", a.status, a.body, writ.CodeRoleMissing)
}

// A browser exchanges a code for a cookie, once, and can then open the dashboard.
//
// Promise: Readers and roles: A browser logs in with a code that works once, within 30 seconds, and never appears in
// a log; logging out ends only that browser's login.
// How: The code is in the URL fragment; the server accepts the forms only from its own origin.
// Also: TestLogoutEndsOnlyThatBrowser, TestSessionsOfOneSignerAreBounded, TestBrowserLogsInWithTheCodeOfItsAddress.
func TestBrowserLogsInWithACodeOnce(t *testing.T) {
	p := startNamed(t, nil)
	status, body := p.as("", http.MethodGet, "/")
	if status != http.StatusUnauthorized || !strings.Contains(body, "writ login --web") || !strings.Contains(body, `<a href="/login">Log in</a>`) || strings.Contains(body, "To the runs") {
		t.Errorf("without a login: status %d, %s", status, body)
	}
	p.token("bob")
	code, err := api.Answer[api.LoginToken](p.client.NewCode(t.Context(), p.proof(key("session of bob"))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.Answer[api.LoginToken](p.client.NewCode(t.Context(), p.proof(key("session of carol")))); writ.CodeOf(err) != writ.CodeLoginRequired {
		t.Errorf("a code for the key of no session: %v", err)
	}
	client := *p.client.Client.(*http.Client)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	exchange := func() *http.Response {
		response, err := client.PostForm(p.PublicURL+"/login", url.Values{"code": {code.Token}})
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response
	}
	first := exchange()
	cookies := first.Cookies()
	if first.StatusCode != http.StatusSeeOther || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("status %d, cookies %v", first.StatusCode, cookies)
	}
	if again := exchange(); again.StatusCode != http.StatusForbidden || len(again.Cookies()) > 0 {
		t.Errorf("the second time: status %d, %v", again.StatusCode, again.Cookies())
	}
	r, err := p.request(http.MethodGet, "/", func(r *http.Request) { r.AddCookie(cookies[0]) })
	if status, body := p.read(r, err); status != http.StatusOK || !strings.Contains(body, "Runs") {
		t.Errorf("with the cookie: status %d, %.300s", status, body)
	}
	out, err := p.client.Logout(t.Context(), p.proof(key("session of bob")))
	if status, body := p.read(out, err); status != http.StatusNoContent {
		t.Errorf("logout: status %d, %s", status, body)
	}
	r, err = p.request(http.MethodGet, "/", func(r *http.Request) { r.AddCookie(cookies[0]) })
	if status, _ := p.read(r, err); status != http.StatusUnauthorized {
		t.Errorf("with the cookie of a session that has ended: status %d", status)
	}
}

// A logout on a page ends the login of that browser, and no other login. A page of another site cannot do it.
func TestLogoutEndsOnlyThatBrowser(t *testing.T) {
	p := startNamed(t, nil)
	program := p.token("bob")
	client := *p.client.Client.(*http.Client)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	post := func(path, origin, form string, cookies ...*http.Cookie) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.PublicURL+path, strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		for _, cookie := range cookies {
			r.AddCookie(cookie)
		}
		r.Header.Set("Origin", origin)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response
	}
	login := func(had ...*http.Cookie) *http.Cookie {
		t.Helper()
		code, err := api.Answer[api.LoginToken](p.client.NewCode(t.Context(), p.proof(key("session of bob"))))
		if err != nil {
			t.Fatal(err)
		}
		return post("/login", p.PublicURL, url.Values{"code": {code.Token}}.Encode(), had...).Cookies()[0]
	}
	get := func(cookie *http.Cookie) (int, string) {
		return p.read(p.request(http.MethodGet, "/", func(r *http.Request) { r.AddCookie(cookie) }))
	}
	before, other := login(), login()
	one := login(before)
	if status, _ := get(before); status != http.StatusUnauthorized {
		t.Errorf("with a cookie that another login has replaced: status %d", status)
	}
	if status, page := get(one); status != http.StatusOK || !strings.Contains(page, "Logged in as bob until ") || !strings.Contains(page, ">Log out<") {
		t.Errorf("status %d, page without the name of the person: %s", status, page)
	}
	if response := post("/logout", "https://attacker.example", "", one); response.StatusCode != http.StatusForbidden || len(response.Cookies()) > 0 {
		t.Errorf("for a page of a stranger: status %d, %v", response.StatusCode, response.Cookies())
	}
	if status, _ := get(one); status != http.StatusOK {
		t.Errorf("after a page of a stranger: status %d", status)
	}
	response := post("/logout", p.PublicURL, "", before, one)
	if cookies := response.Cookies(); response.StatusCode != http.StatusSeeOther || response.Header.Get("Location") != "/login" || len(cookies) != 1 || cookies[0].Value != "" || !cookies[0].Expires.Before(time.Now()) {
		t.Errorf("status %d to %s, cookies %v", response.StatusCode, response.Header.Get("Location"), cookies)
	}
	if status, page := get(one); status != http.StatusUnauthorized || strings.Contains(page, "bob") {
		t.Errorf("with the cookie of a browser that has logged out: status %d, %s", status, page)
	}
	if status, _ := get(other); status != http.StatusOK {
		t.Errorf("with the cookie of another browser: status %d", status)
	}
	if status, _ := p.as(program, http.MethodGet, "/v1/runs"); status != http.StatusOK {
		t.Errorf("with the token of a program: status %d", status)
	}
}

func TestMetricsHaveAListenerOfTheirOwn(t *testing.T) {
	p := startNamed(t, nil)
	own := httptest.NewServer(p.MetricsHandler())
	defer own.Close()
	for path, want := range map[string]int{"/metrics": 200, "/healthz": 200, "/readyz": 200, "/v1/runs": 404, "/": 404} {
		response, err := own.Client().Get(own.URL + path)
		if status, body := p.read(response, err); status != want {
			t.Errorf("%s: status %d, %.200s", path, status, body)
		}
		for refused, change := range map[int]func(r *http.Request){
			http.StatusMisdirectedRequest: func(r *http.Request) { r.Host = "attacker.example" },
			http.StatusForbidden:          func(r *http.Request) { r.Header.Set("Origin", "https://attacker.example") },
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, own.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			change(r)
			response, err := own.Client().Do(r)
			if status, body := p.read(response, err); status != refused {
				t.Errorf("%s of a stranger's page: status %d, want %d: %.200s", path, status, refused, body)
			}
		}
	}
}

// No spelling of an address avoids the login that its route needs.
func TestNoSpellingOfAnAddressGoesPastTheTable(t *testing.T) {
	p := startNamed(t, nil)
	connect(p, vienna, nil)
	sub, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	run := string(sub.Run)
	// An address without a path, as in a request to a proxy.
	for _, path := range []string{"", "/", "?state=failed"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.PublicURL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", p.PublicURL, path, strings.TrimPrefix(p.PublicURL, "http://"))
		answer, err := io.ReadAll(conn)
		conn.Close()
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 401 ")) {
			t.Errorf("the address with %q: %.60q, %v", path, answer, err)
		}
	}
	for _, path := range []string{
		"/v1/runs/", "//v1/runs", "/v1//runs", "/v1/./runs", "/v1/../v1/runs", "/static/../v1/runs", "/static/..%2fv1/runs", "/V1/runs", "/v1/runs%2f", "/v1%2Fruns", "/v1/%72uns",
		"/v1/runs/" + run + "%2f", "/v1/runs/" + run + "%2Fx%2Fy", "/v1/runs/" + run + "%00", "/v1/runs/%" + fmt.Sprintf("%x", run[0]) + run[1:], "/v1/runs/" + run + "/", "/v1/runs/" + run + "/calls/",
		"/v1/runs/" + run + "/calls%2f..%2f..", "/static/%2e%2e/%2e%2e/v1/runs", "/login/../nodes", "/login%2f..%2fnodes", "/nodes/", "/%6eodes", "/live//", "/live/nodes/", "/runs/" + run + "%2Fx", "/v1/submissions/" + sub.Payload.String() + "%2Fsigned",
		"/v1/datacenters/vienna%2Fx/plan", "/v1/nodes?x=/v1/roster", "/v1/nodes;/v1/roster", "/v1/roster/../nodes", "/v1/roster%2f..%2fnodes",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions, "get"} {
			r, err := http.NewRequestWithContext(t.Context(), method, p.PublicURL, nil)
			if err != nil {
				t.Fatal(err)
			}
			raw, query, _ := strings.Cut(path, "?")
			r.URL.Opaque, r.URL.RawQuery = raw, query // as written, not normalized
			response, err := p.client.Client.Do(r)
			status, body := p.read(response, err)
			if status < 400 || strings.Contains(body, "hello.tengo") {
				t.Errorf("%s %s: status %d, %.200s", method, path, status, body)
			}
		}
	}
}

// Another user on a signer's machine may listen where a coordinator was before it had TLS, and relay the signer's
// login.
func TestCoordinatorWithTLSHasNoPlainAddress(t *testing.T) {
	const before, now = "http://127.0.0.1:7440", "https://10.77.0.2:7440"
	at := func(tls *tls.Config, address string) error {
		c := made(t, Config{
			PublicURL: now, OtherURLs: []string{before, now}, Cluster: firstRoster().Cluster, TLS: tls, Self: &access.Self{ID: frontID, Key: key("front")},
		})
		_, err := c.logins.Challenge(api.NewChallenge{Nonce: make([]byte, identity.NonceSize), URL: address})
		return err
	}
	if err := at(&tls.Config{}, now); err != nil {
		t.Error(err)
	}
	if err := at(nil, before); err != nil {
		t.Error(err)
	}
	for _, address := range []string{before, "http://localhost:7440", "http://[::1]:7440"} {
		if err := at(&tls.Config{}, address); writ.CodeOf(err) != writ.CodeLoginRefused {
			t.Errorf("%s: %v", address, err)
		}
	}
}
