package coord

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// A supervisor of an earlier version has no holds, and is not shown as unreachable.
func TestEarlierSupervisorHasNoHolds(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, func(s *supervisor) {
		handle := s.handle
		s.dialer.Handle = func(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
			if verb == link.VerbHolds {
				return nil, writ.Errorf(writ.CodeVerbUnsupported, "what is %q?", verb)
			}
			return handle(ctx, verb, params)
		}
	})
	defer s.leave()
	list, err := api.Answer[api.HoldList](p.client.ListHolds(t.Context(), &api.ListHoldsParams{Datacenter: api.Given(string(vienna))}))
	if err != nil || len(list.Items) != 1 || list.Items[0].Error != nil || len(list.Items[0].Holds) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// The list that a datacenter signs is passed on unchanged. A reader may therefore request only readable projects, and
// only a reader of all projects may request all.
func TestSignedHoldsContainOnlyReadableProjects(t *testing.T) {
	p, _ := startReading(t)
	nonce := strings.Repeat("07", writ.ClientNonce)
	ask := func(who, datacenter, nonce string, projects ...string) string {
		t.Helper()
		query := url.Values{"nonce": {nonce}}
		if len(projects) > 0 {
			query.Set("project", strings.Join(projects, ","))
		}
		return p.answer(p.token(who), http.MethodGet, "/v1/datacenters/"+datacenter+"/holds/standing?"+query.Encode(), "")
	}
	for _, tt := range []struct {
		who, datacenter, nonce string
		projects               []string
		want                   string
	}{
		{"carol", "vienna", nonce, nil, "200"},
		{"carol", "vienna", nonce, []string{string(shop)}, "200"},
		{"carol", "vienna", nonce, []string{string(shop), string(blog)}, absent},
		{"carol", "vienna", nonce, []string{"web-shop"}, absent},
		{"carol", "vienna", nonce, []string{"*"}, noRole},
		{"bob", "vienna", nonce, []string{"*"}, "200"},
		{"bob", "vienna", nonce, []string{string(shop), string(blog)}, "200"},
		{"carol", "vienna", "07", nil, "400 BAD_REQUEST"},
		{"carol", "atlantis", nonce, nil, "404 DATACENTER_UNKNOWN"},
		{"carol", "graz", nonce, nil, "503 DATACENTER_UNAVAILABLE"},
	} {
		if got := ask(tt.who, tt.datacenter, tt.nonce, tt.projects...); got != tt.want {
			t.Errorf("%s asks %s for %v: %s, want %s", tt.who, tt.datacenter, tt.projects, got, tt.want)
		}
	}
}

// A request to a datacenter has the client's nonce and projects. A supervisor of an earlier version gets no request.
func TestHoldRequestCarriesTheClientsNonce(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, func(s *supervisor) {
		hello, handle := s.dialer.Hello, s.handle
		s.dialer.Hello = func() link.Hello {
			h := hello()
			h.Verbs = append(h.Verbs, link.VerbHoldStanding)
			return h
		}
		s.dialer.Handle = func(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
			if verb != link.VerbHoldStanding {
				return handle(ctx, verb, params)
			}
			var asked link.StandingOfHolds
			err := link.Decode(params, &asked)
			return link.StandingAnswer{Proof: fmt.Appendf(nil, "%s %x", asked.Projects, asked.Nonce)}, err
		}
	})
	nonce := strings.Repeat("07", writ.ClientNonce)
	ask := func() ([]byte, error) {
		answer, err := api.Answer[api.HoldStanding](p.client.GetHoldStanding(t.Context(), "vienna", &api.GetHoldStandingParams{Nonce: nonce, Project: []writ.ProjectID{shop, blog}}))
		return answer.Proof, err
	}
	if proof, err := ask(); err != nil || string(proof) != fmt.Sprintf("[%s %s] %s", shop, blog, nonce) {
		t.Errorf("%q, %v", proof, err)
	}
	s.leave()
	connect(p, vienna, nil)
	if _, err := ask(); writ.CodeOf(err) != writ.CodeVerbUnsupported {
		t.Errorf("an older supervisor: %v", err)
	}
}
