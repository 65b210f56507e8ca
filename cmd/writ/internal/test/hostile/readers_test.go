//go:build linux

package hostile

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
	"writ/coord/api/apiclient"
	"writ/identity"
	"writ/internal/test/testenv"
)

// Load of people who watch the cluster.
const (
	readers  = 1000            // logged in, each with their own key and address
	askEvery = 5 * time.Second // per reader
	watching = 50              // readers that also have an event stream open
	askFor   = 50              // number of runs, as in `writ run list`
)

// Their actions, in the form of attacks. They are not malicious, so attacks does not list them.
var (
	loggingIn = attack{"readers", "login", fmt.Sprintf("%d people log in, one after the other", readers), logIn}
	reading   = attack{"readers", "asking", fmt.Sprintf("%d people ask for a list every %s, %d of them watch all events", readers, askEvery, watching), read}
)

// readerName returns the name of a reader, which is also the name of the key file.
func readerName(n int) string { return fmt.Sprintf("reader-%d", n) }

// TestHonestLatencyWithReaders measures the slowdown of honest runs with many readers, alternating with quiet periods.
func TestHonestLatencyWithReaders(t *testing.T) {
	if !testenv.IsLong() {
		t.Skip("it measures for minutes: task readers")
	}
	s := newCluster(t, 1, 0)
	s.addReaders()
	s.honest.work(5*time.Second, 0) // warm up
	full := s.honest.work(*each, 0)
	bears := float64(full.runs()) / each.Seconds()
	rate := bears * *share
	t.Logf("the machine bears %.0f runs/s; from now on %.0f", bears, rate)
	s.logIn()
	r := result{attack: reading.String()}
	before := s.honest.work(*each, rate)
	for round := range *rounds {
		took := s.measure(reading, rate, before)
		r.turns, before = append(r.turns, took.turn), took.after
		t.Logf("round %d: p99 %s quiet, %s with the readers: %.2f and %.2f times; %s; %s", round+1, text(took.Quiet[0].P99), text(took.Beside[0].P99),
			took.ratio(0), took.ratio(1), countsText(took.Did), cpuText(took.turn))
	}
	show(t, bears, rate, []result{r})
}

// addReaders creates the readers' keys and makes each of them viewer of an honest project.
func (s *cluster) addReaders() {
	s.t.Helper()
	names := honestProjects()
	_, err := s.Client.Roster.Amend(s.t.Context(), func(next *identity.Roster) error {
		for n := range readers {
			key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(newKey(s.t, filepath.Join(s.Dir, readerName(n)))))
			if err != nil {
				return err
			}
			project, err := client.Project(next, names[n%len(names)])
			if err != nil {
				return err
			}
			grant := client.Grant{Roles: []identity.Role{identity.Viewer}, Projects: []writ.ProjectID{project.ID}}
			if err := client.AddPrincipal(next, readerName(n), identity.Person, key, grant); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// logIn waits until all readers have logged in.
func (s *cluster) logIn() {
	began := time.Now()
	for left := int64(readers); left > 0; {
		s.attack(loggingIn)
		time.Sleep(5 * time.Second)
		did := s.attacker.tell("", "").Counts
		if left -= did["done"]; time.Since(began) > 10*time.Minute {
			s.t.Fatalf("%d readers have to log in, and the newest of them cannot: %s", left, countsText(did))
		}
	}
	s.t.Logf("%d readers have logged in within %s", readers, time.Since(began).Round(time.Second))
}

// reader is one reader.
type reader struct {
	api *apiclient.Client
	n   int
}

// logIn logs in the readers that are not yet logged in. They stay logged in until the process exits.
func logIn(ctx context.Context, a *attacker) error {
	for len(a.readers) < readers && ctx.Err() == nil {
		r, err := a.reader(len(a.readers))
		if err != nil {
			return err
		}
		err = a.passOver(r.api.ListDatacenters(ctx))
		a.outcome(err)
		if err == nil {
			a.readers = append(a.readers, r)
		}
	}
	return nil
}

// read runs the actions of all readers until ctx ends.
func read(ctx context.Context, a *attacker) error {
	var all sync.WaitGroup
	for _, r := range a.readers {
		all.Go(func() { r.ask(ctx, a) })
		if r.n < watching {
			all.Go(func() { r.watch(ctx, a) })
		}
	}
	all.Wait()
	return nil
}

// reader returns reader n, whose requests come from an own local address.
func (a *attacker) reader(n int) (*reader, error) {
	key := filepath.Join(filepath.Dir(a.Key), readerName(n))
	// The rosters are shared.
	c, err := client.New(config.Context{Servers: []string{a.API}, Cluster: a.Cluster}, a.Key+".sessions", client.Keys{Spec: key})
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n/250), byte(n%250+1))}}
	own := &http.Client{Transport: c.LoggedIn(&http.Transport{DialContext: dialer.DialContext})}
	at, err := apiclient.NewClient(a.API, apiclient.WithHTTPClient(own))
	return &reader{at, n}, err
}

// ask requests lists one after the other. The requests of all readers are spread evenly.
func (r *reader) ask(ctx context.Context, a *attacker) {
	sleep(ctx, askEvery*time.Duration(r.n)/readers)
	for i := r.n; ctx.Err() == nil; i++ {
		began := time.Now()
		var answer *http.Response
		var err error
		switch i % 4 {
		case 0:
			answer, err = r.api.ListRuns(ctx, &api.ListRunsParams{Limit: api.Given(askFor)})
		case 1:
			answer, err = r.api.ListRuns(ctx, &api.ListRunsParams{Limit: api.Given(askFor), State: []api.RunState{api.RunStateFailed}})
		case 2:
			answer, err = r.api.ListResources(ctx, &api.ListResourcesParams{})
		case 3:
			answer, err = r.api.ListDatacenters(ctx)
		}
		a.outcome(a.passOver(answer, err))
		took := time.Since(began)
		if took > time.Second && ctx.Err() == nil {
			a.count("took over 1 s", 1)
		}
		sleep(ctx, askEvery-took)
	}
}

// watch counts the events of the reader's project.
func (r *reader) watch(ctx context.Context, a *attacker) {
	for ctx.Err() == nil {
		answer, err := r.api.Watch(ctx, &api.WatchParams{})
		if err := api.ErrorOf(answer, err); err != nil {
			a.outcome(err)
			sleep(ctx, time.Second)
			continue
		}
		for _, err := range api.Messages(answer.Body) {
			if err != nil {
				break
			}
			a.count("events", 1)
		}
		_ = answer.Body.Close()
	}
}
