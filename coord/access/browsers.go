package access

import (
	"net/http"
	"strings"
	"time"
)

// Browsers logs browsers in and out by a cookie.
type Browsers struct {
	Logins *Logins
	Secure bool // the public URL of the coordinator uses TLS
}

// tokenOf returns the token of a request, from its header or else from the cookie.
func (b *Browsers) tokenOf(r *http.Request) string {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return token
	}
	if cookie, err := r.Cookie(b.cookieName()); err == nil {
		return cookie.Value
	}
	return ""
}

// Login returns a cookie with a token, in exchange for the one-time code in the form of a request. The cookie expires
// with the session.
func (b *Browsers) Login(r *http.Request) (*http.Cookie, error) {
	t, err := b.Logins.exchange(r.PostFormValue("code"))
	if err != nil {
		return nil, err
	}
	b.revoke(r) // the old tokens: once their cookie is replaced, no logout can revoke them
	return b.cookie(t.Token, t.Until), nil
}

// Logout revokes the token of a browser's cookie and returns a cookie that deletes it. The session continues for its
// other browsers and programs.
func (b *Browsers) Logout(r *http.Request) *http.Cookie {
	b.revoke(r)
	return b.cookie("", time.Unix(1, 0))
}

// revoke revokes the tokens of all cookies of a browser. Other servers on the same host may have set some of them.
func (b *Browsers) revoke(r *http.Request) {
	for _, cookie := range r.CookiesNamed(b.cookieName()) {
		b.Logins.revoke(sumOf(cookie.Value))
	}
}

// cookieName returns the name of the cookie. With TLS, the __Host- prefix makes the browser reject this cookie from any
// other host.
func (b *Browsers) cookieName() string {
	if b.Secure {
		return "__Host-writ"
	}
	return "writ"
}

func (b *Browsers) cookie(token string, expires time.Time) *http.Cookie {
	return &http.Cookie{
		Name: b.cookieName(), Value: token, Path: "/", Expires: expires, HttpOnly: true, Secure: b.Secure,
		SameSite: http.SameSiteStrictMode,
	}
}
