package front

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/coord/access"
)

// Authorize serves a request if the scope of its route permits it. It wraps every handler behind the router, so it
// decides about the route that the router matched.
func (f *Front) Authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := chi.RouteContext(r.Context())
		who, err := f.Gate.Admit(r, at)
		if err == nil {
			access.RequestOf(r.Context()).Viewer = who
			err = f.awaitReader(w, r, who)
		}
		if err != nil {
			f.deny(w, r, err)
			return
		}
		if access.ScopeOf(access.RouteOfRequest(r, at)) == access.ForStrangers && !f.Gate.HasLogin(r) {
			f.Strangers.serve(w, r, next)
			return
		}
		if !isStream(r) { // while this request is in progress, requests without a login start more slowly
			defer f.Strangers.Turns.Precede()()
		}
		if who != nil {
			f.serveReader(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// awaitReader applies the rate limit of one address to a person, even if the person uses several addresses.
func (f *Front) awaitReader(w http.ResponseWriter, r *http.Request, who *access.Viewer) error {
	login := who.Login()
	if login == nil {
		return nil
	}
	wait, ok := f.Readers.Reserve(login.Signer, costOf(r), 0)
	if ok {
		return nil
	}
	w.Header().Set("Retry-After", fmt.Sprint(int(wait/time.Second)+1))
	return writ.Errorf(writ.CodeRateLimited, "too many requests by %s", login.Signer).
		WithHint("wait for the time in Retry-After; a program that polls should watch events instead")
}

// deny answers a request that was not admitted. For the API the answer is a problem, for the dashboard a page that
// explains how to log in.
func (f *Front) deny(w http.ResponseWriter, r *http.Request, err error) {
	if strings.HasPrefix(r.URL.Path, "/v1/") || r.URL.Path == "/metrics" {
		f.Fail(w, r, err)
		return
	}
	askForLogin(w.Header(), err)
	f.RefusePage(w, r, err)
}
