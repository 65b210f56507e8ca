package front

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"writ"
	"writ/coord/api"
	"writ/internal/lazyregexp"
	"writ/supervisor/link"
)

// RegistrationsPath is the path of supervisors' requests for admission to the roster.
const RegistrationsPath = "/v1/datacenters/registrations"

// PlanPath matches requests to a datacenter for the preview of a plan.
var PlanPath = lazyregexp.New(`^/v1/datacenters/[^/]+/plan$`)

// Limits of JSON bodies.
const (
	maxRegistration = 16 << 10
	maxProposal     = link.MaxFrame - 4<<10 // a proposal is forwarded in one frame
)

// proofPaths are the paths with a SessionProof as body.
var proofPaths = []string{"/v1/logins/tokens", "/v1/logins/codes", "/v1/logins/ends"}

// StrictBodies rejects a JSON body with unknown fields or trailing data, which the generated code would ignore.
func (f *Front) StrictBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var most int64
		var into any
		switch {
		case r.Method != http.MethodPost:
		case r.URL.Path == RegistrationsPath:
			most, into = maxRegistration, new(api.NewRegistration)
		case PlanPath.MatchString(r.URL.Path):
			most, into = maxProposal, new(writ.Proposal)
		case r.URL.Path == "/v1/logins/challenges":
			most, into = maxRegistration, new(api.NewChallenge)
		case slices.Contains(proofPaths, r.URL.Path):
			most, into = maxRegistration, new(api.SessionProof)
		}
		if into == nil {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
		if err == nil {
			d := json.NewDecoder(bytes.NewReader(body))
			d.DisallowUnknownFields()
			if err = d.Decode(into); err == nil && d.More() {
				err = errors.New("something follows it")
			}
		}
		if err != nil {
			f.Fail(w, r, BadRequest(err))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
