package supervisor_test

import (
	"crypto/ed25519"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity"
)

// listener is a coordinator that only tells who comes and goes.
func listener(t *testing.T, name string, came, went chan<- string) string {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came <- name
		<-r.Context().Done()
		went <- name
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// Coordinators come and go with the roster.
func TestSupervisorsLinkToTheCoordinatorsOfTheRoster(t *testing.T) {
	came, went := make(chan string, 10), make(chan string, 10)
	one, two := listener(t, "one", came, went), listener(t, "two", came, went)
	s := found(t)
	with := func(urls map[string]string) {
		t.Helper()
		next, err := s.roster.Successor(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		next.Coordinators = nil
		for name, url := range urls {
			next.Coordinators = append(next.Coordinators, identity.Coordinator{
				ID: writ.NewUUID(), Name: name, Key: newKey(t).Public().(ed25519.PublicKey), URLs: []string{url},
			})
		}
		s.adopt(next)
	}
	next := func(from <-chan string, want string) {
		t.Helper()
		select {
		case name := <-from:
			if name != want {
				t.Fatalf("%s instead of %s", name, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("not %s", want)
		}
	}
	adopted := func() {
		t.Helper()
		if _, err := s.AdoptRosters(t.Context(), s.rosters); err != nil {
			t.Fatal(err)
		}
	}
	with(map[string]string{"one": one})
	s.coordinators, s.dialWith = []string{one}, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	s.start()
	next(came, "one")
	with(map[string]string{"one": one, "two": two})
	adopted()
	next(came, "two")
	with(map[string]string{"one": one})
	adopted()
	next(went, "two")
	s.halt()
	next(went, "one")

	// One at an address that the roster does not have may be any of its coordinators: none is added.
	with(map[string]string{"two": two})
	s.start()
	next(came, "one")
	select {
	case name := <-came:
		t.Errorf("%s is linked as well", name)
	default:
	}
	if got := s.Links(); len(got) != 1 {
		t.Errorf("links to %v", got)
	}
	s.halt()
}
