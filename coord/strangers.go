package coord

import (
	"net/http"
	"strings"

	"writ/internal/httpguard"
	"writ/internal/limit"
)

// strangersBodies limits the memory for rosters in simultaneous requests without a login. It holds the 14 largest ones,
// of 576 KiB each. Reading one takes about three times its size.
const strangersBodies = 8 << 20

// strangers limits the processors and the memory for requests without a login.
type strangers struct {
	turns  limit.Turns
	bodies limit.Bodies // strangersBodies
}

// hasLogin reports whether a request has a token that is valid now.
func (c *Coordinator) hasLogin(r *http.Request) bool {
	if c.Self == nil {
		return false
	}
	return c.logins.of(sumOf(c.tokenOf(r)), c.Now()) != nil
}

// tokenOf returns the token of a request, from its header or else from the cookie of the dashboard.
func (c *Coordinator) tokenOf(r *http.Request) string {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return token
	}
	if cookie, err := r.Cookie(c.cookieName()); err == nil {
		return cookie.Value
	}
	return ""
}

// serve answers a request when its turn comes.
func (s *strangers) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, release := s.bodies.Meter(r.RemoteAddr, r.Body)
	defer release()
	r.Body = body
	httpguard.InTurn(&s.turns, next).ServeHTTP(w, r)
}
