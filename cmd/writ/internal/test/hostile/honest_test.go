//go:build linux

package hostile

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/coord/api/apiclient"
	"writ/identity"
)

// Scripts of honest runs, used alternately: one call, and ten sequential calls.
const (
	honestOne = `
node := import("node")
node.ping({}, {node: "dc1-n1"})
`
	honestTen = `
node := import("node")
for i := 0; i < 10; i++ { node.ping({}, {node: "dc1-n1"}).err }
`
)

// honestProjects lists the projects of honest runs. With several projects, none reaches its submission limit.
func honestProjects() []string {
	return []string{"shop", "blog", "wiki", "mail", "news", "maps", "chat", "docs"}
}

// honest runs the honest load.
type honest struct {
	cluster    *testcluster.Cluster
	api        *apiclient.Client
	roster     *identity.Roster
	person     *client.Person
	datacenter writ.DatacenterID
	projects   []identity.Project
	scripts    []client.Script
	number     atomic.Int64

	mu    sync.Mutex
	waits map[writ.RunID]chan writ.RunState
}

// inFlight is the maximum number of concurrent honest runs.
const inFlight = 50

func newHonest(cluster *testcluster.Cluster) *honest {
	t := cluster.T
	t.Helper()
	h := &honest{cluster: cluster, waits: map[writ.RunID]chan writ.RunState{}}
	var err error
	if h.roster, err = cluster.Client.Roster.Newest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h.person, err = cluster.Client.Person(t.Context(), h.roster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.person.Close() })
	h.datacenter = h.roster.Datacenters[0].ID
	for _, name := range honestProjects() {
		project, err := client.Project(h.roster, name)
		if err != nil {
			t.Fatal(err)
		}
		h.projects = append(h.projects, project)
	}
	for _, text := range []string{honestOne, honestTen} {
		h.scripts = append(h.scripts, client.NewScript("honest.tengo", []byte(text)))
	}
	many := &http.Client{Transport: cluster.Client.LoggedIn(&http.Transport{MaxIdleConnsPerHost: 2 * inFlight})}
	if h.api, err = apiclient.NewClient(cluster.URL, apiclient.WithHTTPClient(many)); err != nil {
		t.Fatal(err)
	}
	return h
}

// sample holds durations of honest runs, by script.
type sample struct {
	mu     sync.Mutex
	took   [2][]time.Duration
	failed []error
}

func (s *sample) add(script int, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed = append(s.failed, err)
		return
	}
	s.took[script] = append(s.took[script], took)
}

func (s *sample) runs() int { return len(s.took[0]) + len(s.took[1]) }

// joined merges two samples.
func joined(a, b *sample) *sample {
	all := &sample{failed: slices.Concat(a.failed, b.failed)}
	for i := range all.took {
		all.took[i] = slices.Concat(a.took[i], b.took[i])
	}
	return all
}

// percentile returns the n-th percentile of durations.
func percentile(took []time.Duration, n int) time.Duration {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[min(len(sorted)*n/100, len(sorted)-1)]
}

// work submits runs for a period and returns when all have ended. rate is the number per second; 0 means as fast as
// runs end.
func (h *honest) work(lasts time.Duration, rate float64) *sample {
	ctx, stop := context.WithTimeout(h.cluster.T.Context(), lasts)
	defer stop()
	listening, quit := context.WithCancel(h.cluster.T.Context())
	defer quit()
	s := &sample{}
	if err := h.listen(listening); err != nil {
		s.add(0, 0, err)
		return s
	}
	var all sync.WaitGroup
	room := make(chan struct{}, inFlight)
	for due := time.Now(); ctx.Err() == nil; {
		if rate > 0 {
			due = due.Add(time.Duration(float64(time.Second) / rate))
			sleep(ctx, time.Until(due))
		}
		select {
		case room <- struct{}{}:
			all.Go(func() {
				defer func() { <-room }()
				number := int(h.number.Add(1))
				script := number % 2
				took, err := h.run(h.cluster.T.Context(), number/2, script)
				s.add(script, took, err)
			})
		case <-ctx.Done():
		}
	}
	all.Wait()
	return s
}

// finish submits several runs at once and returns when all have ended.
func (h *honest) finish(runs int) *sample {
	s := &sample{}
	listening, quit := context.WithCancel(h.cluster.T.Context())
	defer quit()
	if err := h.listen(listening); err != nil {
		s.add(0, 0, err)
		return s
	}
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			took, err := h.run(h.cluster.T.Context(), i/2, i%2)
			s.add(i%2, took, err)
		})
	}
	all.Wait()
	return s
}

// patience limits the wait for a run that does not end.
const patience = testcluster.Patience

// lookAgain is the interval for polling a run, in case its event was lost because the event stream broke.
const lookAgain = 5 * time.Second

// run executes a script once in a project and returns the time from its submission to the notification of its end.
func (h *honest) run(ctx context.Context, project, script int) (time.Duration, error) {
	o := client.Order{
		Script: h.scripts[script], Datacenter: h.datacenter, Project: h.projects[project%len(h.projects)], Expires: identity.DefaultValidity, Deadline: time.Hour, MaxCalls: 10,
	}
	text, err := o.Payload(h.roster, h.person.Signatory())
	if err != nil {
		return 0, err
	}
	signed, err := h.person.SignPayload(text)
	if err != nil {
		return 0, err
	}
	id := writ.RunIDOf(writ.DigestOf(text))
	ended := make(chan writ.RunState, 1)
	h.mu.Lock()
	h.waits[id] = ended
	h.mu.Unlock()
	ctx, stop := context.WithTimeoutCause(ctx, patience, writ.Errorf(writ.CodeTimeout, "run %s does not end", id))
	defer stop()
	began := time.Now()
	if _, err := api.Answer[writ.Submission](h.api.SubmitWithBody(ctx, api.SignedType, bytes.NewReader(signed))); err != nil {
		return 0, err
	}
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		var state writ.RunState
		select {
		case state = <-ended:
		case <-look.C:
			run, err := api.Answer[api.Run](h.api.GetRun(ctx, id))
			if err != nil {
				return 0, err
			}
			if !run.State.Ended() {
				continue
			}
			state = writ.RunState(run.State)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		if state != writ.RunSucceeded {
			return 0, writ.Errorf(writ.CodeExecError, "run %s is %s", id, state)
		}
		return time.Since(began), nil
	}
}

// listen reads the event stream until ctx ends and notifies runs of their end.
func (h *honest) listen(ctx context.Context) error {
	answer, err := h.api.Watch(ctx, &api.WatchParams{Topics: api.EventTopics{api.TopicRun}})
	if err := api.ErrorOf(answer, err); err != nil {
		return err
	}
	go func() {
		defer answer.Body.Close()
		for m, err := range api.Messages(answer.Body) {
			if err != nil {
				return
			}
			if r := m.Event.Run; r != nil && writ.RunState(r.State).Ended() {
				h.ended(r.ID, writ.RunState(r.State))
			}
		}
	}()
	return nil
}

func (h *honest) ended(id writ.RunID, state writ.RunState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if waits := h.waits[id]; waits != nil {
		waits <- state
		delete(h.waits, id)
	}
}
