package nodes_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"writ"
	"writ/supervisor/nodes"
)

// One supervisor is gone, one stands by, and one serves: a node finds it, stays with it, and finds the next when they change.
func TestANodeFindsTheSupervisorThatServes(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	held := writ.Errorf(writ.CodeStoreUnavailable, "another supervisor serves the datacenter")
	var asked [2]int
	var serving [2]bool
	var urls []string
	for i := range serving {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[i]++
			if serving[i] {
				nodes.Handler(&desk{}, log).ServeHTTP(w, r)
				return
			}
			nodes.Standby(held, log).ServeHTTP(w, r)
		}))
		defer server.Close()
		urls = append(urls, server.URL)
	}
	s := nodes.NewSeveral(gone.URL, urls[0], urls[1])
	if _, err := s.Rosters(t.Context(), 0); writ.CodeOf(err) != writ.CodeStoreUnavailable || s.Away().IsZero() {
		t.Errorf("while none serves: %v, away since %s", err, s.Away())
	}
	serving[1] = true
	for range 3 {
		if _, err := s.Rosters(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Greet(t.Context(), nodes.Hello{}); err != nil {
		t.Error(err)
	}
	if _, err := s.Admit(t.Context(), nodes.Claim{}); err != nil || !s.Away().IsZero() {
		t.Errorf("the claim went elsewhere: %v", err)
	}
	if asked != [2]int{2, 6} {
		t.Errorf("they were asked %v times", asked)
	}
	serving = [2]bool{true, false}
	if _, err := s.Payload(t.Context(), writ.Digest{}); err != nil {
		t.Error(err)
	}
}
