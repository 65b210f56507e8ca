package supervisor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/supervisor/journal"
)

// deaf is a volume driver. Its first job on "stuck" ignores its context and takes effect after three minutes.
type deaf struct {
	stuckDriver
}

func (d *deaf) Do(_ context.Context, r sal.Request) (sal.Outcome, error) {
	return d.stuckDriver.Do(context.Background(), r)
}

// volumeScript returns a script that creates a volume.
func volumeScript(name, options string) string {
	return fmt.Sprintf("volume := import(\"volume\")\nvolume.create(%q, {size_gib: 1}, %s)\n", name, options)
}

// volume returns the journal's record of a volume, or nil if it has none.
func (s *sim) volume(name string) (have *journal.Resource) {
	s.t.Helper()
	err := s.journal.Read(s.t.Context(), func(tx *journal.Tx) (err error) {
		have, err = tx.Resource(writ.ResourceID{Project: theProject, Kind: writ.KindVolume, Name: name})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return have
}

// lastNode returns the node of the last event about a node.
func (s *sim) lastNode() (n writ.Node) {
	s.t.Helper()
	events, err := s.journal.Events(s.t.Context(), 0, 1000)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		if e.Node != nil {
			n = *e.Node
		}
	}
	return n
}

func TestStuckDriverExpiresAndIsNamed(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		h := newSimHost(1)
		n := s.realNode("n1", func(n *realNode) { n.drivers = []sal.Driver{&deaf{stuckDriver{simDriver: simDriver{h, "volume"}}}} })
		began := time.Now()
		id := s.submit(volumeScript("stuck", `{timeout: "5s"}`))
		run, calls := s.wantState(id, writ.RunFailed)
		if run.Failure.Code != writ.CodeDeadlineExceeded || calls[0].State != writ.CallExpired || calls[0].EndBy.Add(10*time.Second).Before(calls[0].Ended) {
			t.Errorf("call %s at %s, %+v; end-by %s", calls[0].State, calls[0].Ended, run.Failure, calls[0].EndBy)
		}
		if !testenv.Mentions(run.Failure.Message, "driver") {
			t.Errorf("failure = %+v", run.Failure)
		}
		time.Sleep(2 * time.Second)
		if stuck := s.lastNode().Stuck; len(stuck) != 1 || stuck[0].JobKey != calls[0].Key() || stuck[0].Name != "stuck" ||
			stuck[0].Operation != "volume.create" || !stuck[0].Since.After(began) {
			t.Errorf("stuck jobs of the node = %+v", stuck)
		}
		s.wantState(s.submit(volumeScript("other", `{}`)), writ.RunSucceeded)
		time.Sleep(3 * time.Minute)
		if node := s.lastNode(); len(node.Stuck) != 0 || node.ID != n.id() {
			t.Errorf("stuck jobs after the driver has ended = %+v, want none", node.Stuck)
		}
		if have := s.volume("stuck"); have == nil || have.Run != id {
			t.Errorf("late volume in the journal = %+v", have)
		}
	})
}

// Promise: Recovery: A resource of an abandoned call does not block the next call: the same deployment takes it over,
// and other deployments see its owner.
// How: A node reports the uid that it found; uids derive from calls, so the journal knows the owner.
// Also: TestNextCallAdoptsLostNodesResource.
func TestNextCallAdoptsStuckDriversResource(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		h := newSimHost(1)
		s.realNode("n1", func(n *realNode) { n.drivers = []sal.Driver{&deaf{stuckDriver{simDriver: simDriver{h, "volume"}}}} })
		first := s.submit(volumeScript("stuck", `{timeout: "5s"}`))
		s.wantState(first, writ.RunFailed)
		// The job waits on the node for the driver. It was sent with an order to create a new volume.
		_, calls := s.wantState(s.submit(volumeScript("stuck", `{timeout: "10m"}`)), writ.RunSucceeded)
		have := s.volume("stuck")
		if have == nil || calls[0].UID != have.UID || calls[0].Change != writ.ChangeUnchanged {
			t.Errorf("call returned %s, %q; journal has %+v", calls[0].UID, calls[0].Change, have)
		}
		s.wantState(s.submit(volumeScript("stuck", `{timeout: "10m"}`)), writ.RunSucceeded)
	})
}

// dyingDriver is a volume driver whose runner dies after its first effect.
type dyingDriver struct {
	simDriver
	die func()
}

func (d *dyingDriver) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	change, err := d.host.effect(r, keyOf(r.Key))
	if die := d.die; die != nil {
		d.die = nil
		die()
		<-ctx.Done()
		return sal.Outcome{}, ctx.Err()
	}
	return sal.Outcome{Change: change, Values: answerOf(r)}, err
}

func TestNextCallAdoptsLostNodesResource(t *testing.T) {
	for _, tt := range []struct {
		deployment, options string
		want                writ.RunState
	}{
		{"web", `{}`, writ.RunSucceeded},
		{"other", `{}`, writ.RunFailed},
		{"other", `{adopt: true}`, writ.RunSucceeded},
	} {
		t.Run(tt.deployment+tt.options, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				h := newSimHost(1)
				d := &dyingDriver{simDriver: simDriver{h, "volume"}}
				n := s.realNode("n1", func(n *realNode) { n.drivers = []sal.Driver{d} })
				made := make(chan struct{})
				d.die = func() { close(made) }
				submit := func(deployment string, revision int, script string) writ.RunID {
					run, err := s.Submit(t.Context(), s.signPayload(s.deploying(deployment, revision, script)))
					if err != nil {
						t.Fatal(err)
					}
					return run.ID
				}
				first := submit("web", 0, volumeScript("v", `{}`))
				<-made
				n.halt()
				if run, _ := s.wantState(first, writ.RunFailed); run.Failure.Code != writ.CodeNodeLost {
					t.Fatalf("failure = %+v", run.Failure)
				}
				s.queue.Flush() // the next runner gets no delivery of the job
				n.start()
				base := 0
				if tt.deployment == "web" {
					base = 1
				}
				// The second call resizes the volume, so it must find it in the journal.
				script := strings.Replace(volumeScript("v", tt.options), "volume.create", "v := volume.create", 1) + "volume.resize(v, {size_gib: 2})\n"
				run, calls := s.wantState(submit(tt.deployment, base, script), tt.want)
				have := s.volume("v")
				if tt.want == writ.RunFailed {
					if run.Failure.Code != writ.CodeNotOwner || !strings.Contains(run.Failure.Message, string(first)) || have != nil {
						t.Errorf("failure = %+v, resource = %+v", run.Failure, have)
					}
					return
				}
				if have == nil || have.UID != calls[0].UID || have.Deployment != tt.deployment || len(h.made) != 1 {
					t.Errorf("journal has %+v; %d volumes created", have, len(h.made))
				}
			})
		})
	}
}

// deploying returns a submission against revision base of a deployment.
func (s *sim) deploying(deployment string, base int, script string) *identity.Payload {
	p := s.payload(script)
	p.Deployment = identity.Deployment{Name: deployment, Base: base}
	return p
}
