package front

import (
	"encoding/json"
	"net/http"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
)

// Fail writes the problem response of an error. The text of an internal error is only logged.
func (f *Front) Fail(w http.ResponseWriter, r *http.Request, err error) {
	a := access.RequestOf(r.Context())
	problem := api.ProblemOf(err, a.ID)
	log := f.Log.With("request", a.ID, "method", r.Method, "path", r.URL.Path)
	switch {
	case r.Context().Err() != nil: // the client has disconnected
	case problem.Code == writ.CodeInternal:
		log.ErrorContext(r.Context(), "answer request", "err", err)
	case isRefusal(r, problem.Code):
		if log = log.With("remote", a.Remote); a.Signer != "" {
			log = log.With("signer", a.Signer)
		}
		f.Refusals.Record(r.Context(), log, "request", err)
	}
	body, _ := json.Marshal(problem) // strings and numbers always encode
	w.Header().Set("Content-Type", api.ProblemType)
	askForLogin(w.Header(), err)
	if after := api.RetryAfter(problem.Code); after != "" && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", after)
	}
	w.WriteHeader(problem.Status)
	_, _ = w.Write(append(body, '\n'))
}

// isRefusal reports whether an error counts as a refusal. A read of a missing resource, or with invalid parameters, is
// not a refusal.
func isRefusal(r *http.Request, code writ.Code) bool {
	switch kind := code.Info().Kind; r.Method {
	case http.MethodGet, http.MethodHead:
		return kind != writ.NotFound && kind != writ.Invalid
	default:
		return true
	}
}

// askForLogin adds the authentication header to an error response if a login is missing.
func askForLogin(h http.Header, err error) {
	if writ.CodeOf(err) == writ.CodeLoginRequired {
		h.Set("WWW-Authenticate", `Bearer realm="writ"`)
	}
}
