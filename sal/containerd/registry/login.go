package registry

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync"
)

// Login is an account at a registry. The zero value means that no account is used.
type Login struct{ User, Password string }

// redact removes the password from a text. Servers may repeat it in their answers.
func (l Login) redact(text string) string {
	if l.Password == "" {
		return text
	}
	header := base64.StdEncoding.EncodeToString([]byte(l.User + ":" + l.Password))
	return strings.NewReplacer(l.Password, "<password>", header, "<password>").Replace(text)
}

// loginGuard keeps a login from the targets of redirects, and records whether the registry accepts it. The client of
// net/http only compares host names, so it would send the login to every port of the registry's host.
type loginGuard struct {
	http.RoundTripper
	registry string // host and port

	mu                 sync.Mutex
	accepted, rejected bool
}

var errRedirectedLogin = errors.New("the server redirects a request with a password to another server")

func (g *loginGuard) RoundTrip(q *http.Request) (*http.Response, error) {
	if redirectedAway(q) {
		if q.Body != nil && q.Body != http.NoBody { // the body of a request for a token
			return nil, errRedirectedLogin
		}
		q = q.Clone(q.Context())
		q.Header.Del("Authorization")
	}
	answer, err := g.RoundTripper.RoundTrip(q)
	if basic := strings.HasPrefix(q.Header.Get("Authorization"), "Basic "); err == nil && (basic || q.Method == http.MethodPost) {
		g.record(q, answer.StatusCode)
	}
	return answer, err
}

// redirectedAway reports whether an earlier redirect of a request led to another host or port. The client of net/http
// copies the headers of the first request into each later request, even after such a redirect.
func redirectedAway(q *http.Request) bool {
	host := q.URL.Host
	for q.Response != nil {
		if q = q.Response.Request; q.URL.Host != host {
			return true
		}
	}
	return false
}

// record records the answer to a request with the login: of the registry itself, or of its token server. Some token
// servers reject a login with the status 400 or 403.
func (g *loginGuard) record(q *http.Request, status int) {
	atRegistry := q.URL.Host == g.registry && strings.HasPrefix(q.URL.Path, "/v2/")
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case status == http.StatusUnauthorized,
		!atRegistry && (status == http.StatusBadRequest || status == http.StatusForbidden):
		g.rejected = true
	case status < 400, atRegistry && status < 500 && status != http.StatusTooManyRequests:
		g.accepted = true
	}
}

// isRejected reports whether no server accepted the login, and at least one server rejected it.
func (g *loginGuard) isRejected() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rejected && !g.accepted
}
