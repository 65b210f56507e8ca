package nodes_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"writ"
	"writ/supervisor/nodes"
)

// One supervisor is gone, one is standby, and one serves: a node finds it, stays with it, and finds the next one after
// a change.
//
// Promise: Admission of nodes: A node with several supervisor addresses finds the serving supervisor without a load
// balancer and stays with it.
// How: The node verifies each answer and tries the next address if a supervisor is unreachable, on standby, or silent
// for 3 s.
// Also: TestNodeSkipsHangingSupervisor.
func TestNodeFindsServingSupervisor(t *testing.T) {
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
				nodes.Handler(&desk{}, nil, log).ServeHTTP(w, r)
				return
			}
			nodes.Standby(held, log).ServeHTTP(w, r)
		}))
		defer server.Close()
		urls = append(urls, server.URL)
	}
	s := nodes.NewSeveral(nil, gone.URL, urls[0], urls[1])
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

// A node skips a hanging supervisor, and from then on prefers the supervisor that answered. A slow supervisor can still
// answer after others were tried.
func TestNodeSkipsHangingSupervisor(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // connections are never answered
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	asked := 0
	serves := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		nodes.Handler(&desk{}, nil, log).ServeHTTP(w, r)
	}))
	defer serves.Close()
	// A client waits longer than that for a hanging server.
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	s := nodes.NewSeveral(nil, "http://"+hangs.Addr().String(), serves.URL)
	s.Patience = time.Millisecond
	if _, err := s.Rosters(ctx, 0); err != nil {
		t.Fatalf("the second one was not asked: %v", err)
	}
	s.Patience = time.Hour
	if _, err := s.Rosters(ctx, 0); err != nil || asked != 2 || !s.Away().IsZero() {
		t.Errorf("%d requests to the preferred supervisor: %v, want 2", asked, err)
	}

	others := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-others
		nodes.Handler(&desk{}, nil, log).ServeHTTP(w, r)
	}))
	defer slow.Close()
	standby := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nodes.Standby(writ.Errorf(writ.CodeStoreUnavailable, "another supervisor serves"), log).ServeHTTP(w, r)
		close(others)
	}))
	defer standby.Close()
	s = nodes.NewSeveral(nil, slow.URL, standby.URL)
	s.Patience = time.Millisecond
	if _, err := s.Rosters(ctx, 0); err != nil {
		t.Errorf("the slow one was not heard: %v", err)
	}
}
