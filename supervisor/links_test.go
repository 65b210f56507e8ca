package supervisor_test

import (
	"crypto/ed25519"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity"
)

// listener starts a coordinator that only reports when links open and close.
func listener(t *testing.T, name string, came, went chan<- string) string {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came <- name
		<-r.Context().Done()
		went <- name
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// named returns coordinators of a roster, each with its own fixed key.
func named(t *testing.T, urls map[string]string) map[string]identity.Coordinator {
	all := make(map[string]identity.Coordinator)
	for name, url := range urls {
		all[name] = identity.Coordinator{ID: writ.NewUUID(), Name: name, Key: newKey(t).Public().(ed25519.PublicKey), URLs: []string{url}}
	}
	return all
}

// nameCoordinators adopts a roster with exactly the named coordinators.
func (s *sim) nameCoordinators(all map[string]identity.Coordinator, names ...string) {
	s.t.Helper()
	next, err := s.roster.Successor(time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	next.Coordinators = nil
	for _, name := range names {
		next.Coordinators = append(next.Coordinators, all[name])
	}
	s.adopt(next)
}

// Promise: Connections and certificates: Supervisors connect to every coordinator of the roster and disconnect from
// removed ones; commands use another coordinator if theirs does not answer.
// How: A supervisor with a configured address outside the roster connects to the configured addresses only.
// Also: TestAnotherCoordinatorOfTheRosterIsAsked.
func TestSupervisorLinksToRosterCoordinators(t *testing.T) {
	came, went := make(chan string, 10), make(chan string, 10)
	one, two := listener(t, "one", came, went), listener(t, "two", came, went)
	s := newCluster(t)
	all := named(t, map[string]string{"one": one, "two": two})
	with := func(names ...string) {
		t.Helper()
		s.nameCoordinators(all, names...)
	}
	next := func(from <-chan string, want string) {
		t.Helper()
		select {
		case name := <-from:
			if name != want {
				t.Fatalf("got %s, want %s", name, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("no event, want %s", want)
		}
	}
	adopted := func() {
		t.Helper()
		if _, err := s.AdoptRosters(t.Context(), s.rosters); err != nil {
			t.Fatal(err)
		}
	}
	with("one")
	s.coordinators, s.dialWith = []string{one}, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	s.start()
	next(came, "one")
	with("one", "two")
	adopted()
	next(came, "two")
	with("one")
	adopted()
	next(went, "two")
	s.halt()
	next(went, "one")

	// A configured address outside the roster may belong to any coordinator, so no coordinator of the roster is added.
	three := listener(t, "three", came, went)
	with("two")
	s.coordinators = []string{three}
	s.start()
	next(came, "three")
	select {
	case name := <-came:
		t.Errorf("unexpected link to %s", name)
	default:
	}
	if got := s.Links(); len(got) != 1 {
		t.Errorf("links = %v, want one", got)
	}
	s.halt()
	next(went, "three")
}

// A link ends when its coordinator leaves the roster, even if its address was configured. Links to other coordinators
// stay.
func TestRemovedCoordinatorLosesItsLink(t *testing.T) {
	came, went := make(chan string, 10), make(chan string, 10)
	one, two := listener(t, "one", came, went), listener(t, "two", came, went)
	s := newCluster(t)
	keys := named(t, map[string]string{"one": one, "two": two})
	with := func(names ...string) {
		t.Helper()
		s.nameCoordinators(keys, names...)
		if s.Supervisor == nil {
			return
		}
		if _, err := s.AdoptRosters(t.Context(), s.rosters); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(from <-chan string, want ...string) {
		t.Helper()
		var got []string
		for range want {
			select {
			case name := <-from:
				got = append(got, name)
			case <-time.After(time.Minute):
				t.Fatalf("got %v, want %v", got, want)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	with("one", "two")
	s.coordinators, s.dialWith = []string{one}, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	s.start()
	expect(came, "one", "two")

	// A changed key means a different coordinator at the same address. The link is closed and opened again, with the new
	// key verified.
	replaced := keys["two"]
	replaced.Key = newKey(t).Public().(ed25519.PublicKey)
	keys["two"] = replaced
	with("one", "two")
	expect(went, "two")
	expect(came, "two")

	with("two")
	expect(went, "one")
	if got := s.Links(); !slices.Equal(got, []string{two}) {
		t.Errorf("links = %v, want only two", got)
	}
	s.halt()
	expect(went, "two")
	s.start() // openSecrets the links from the journal
	expect(came, "two")
	if got := s.Links(); !slices.Equal(got, []string{two}) {
		t.Errorf("links after a restart = %v, want only two", got)
	}
	s.halt()
}
