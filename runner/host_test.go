package runner_test

import (
	"cmp"
	"context"
	"maps"
	"sync"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// host is the machine on which the drivers of these tests act. It outlives runners and counts effects by job key.
type host struct {
	mu      sync.Mutex
	things  map[writ.ResourceID]writ.UID
	effects map[string]int
	order   []string // order of effects
	atOnce  map[writ.ResourceID]int
	most    int // highest number of concurrent jobs on one resource
	state   string
	wrote   bool // every log has more lines

	programs map[writ.UID]*program // by the UID of their call
	failing  bool                  // programs end with an error
	deleted  []string              // keys of requests

	// pause is called when a driver starts an operation, and when its effect exists; an error ends the operation.
	pause func(ctx context.Context, step string, request sal.Request) error
}

// program is a program that has run for a call.
type program struct {
	failed   bool
	returned int // attempt that returned the result
}

// The steps at which host.pause is called.
const (
	begun = "begun"
	acted = "acted"
)

func newHost() *host {
	return &host{
		things: map[writ.ResourceID]writ.UID{}, effects: map[string]int{}, atOnce: map[writ.ResourceID]int{},
		programs: map[writ.UID]*program{},
		pause:    func(context.Context, string, sal.Request) error { return nil }, state: "there",
	}
}

// becomes sets the state of every resource, and whether logs have more lines.
func (h *host) becomes(state string, wrote bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state, h.wrote = state, wrote
}

func (h *host) setPause(pause func(ctx context.Context, step string, request sal.Request) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pause = pause
}

func (h *host) count(key string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.effects[key]
}

// busy returns the number of jobs that act now.
func (h *host) busy() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, jobs := range h.atOnce {
		n += jobs
	}
	return n
}

// remove deletes the resource of a job.
func (h *host) remove(job *writ.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.things, func(thing writ.ResourceID, _ writ.UID) bool { return thing.Name == job.Name })
}

func (h *host) total() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for v := range maps.Values(h.effects) {
		n += v
	}
	return n
}

// drivers returns drivers for the modules volume, container and node.
func (h *host) drivers() []sal.Driver {
	return []sal.Driver{&driver{h, "volume"}, &driver{h, "container"}, &driver{h, "node"}}
}

// driver acts on a host. It keeps the contract of sal.Driver unless the host's pause violates it.
type driver struct {
	host   *host
	module string
}

var (
	_ sal.Logging  = (*driver)(nil)
	_ sal.Resuming = (*driver)(nil)
)

func (d *driver) Describe() writ.NodeDriver {
	return writ.NodeDriver{Module: d.module, Name: "test-" + d.module, Simulated: d.module != "node"}
}

func (d *driver) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	defer d.enter(r.Resource)()
	d.host.mu.Lock()
	pause := d.host.pause
	d.host.mu.Unlock()
	if err := pause(ctx, begun, r); err != nil {
		return sal.Outcome{}, err
	}
	r.Progress("working")
	if r.Operation.Repeat == catalog.Resume {
		d.runs(r)
		if err := pause(ctx, acted, r); err != nil {
			return sal.Outcome{}, err
		}
		return d.returns(r)
	}
	outcome := d.effect(r)
	return outcome, pause(ctx, acted, r)
}

// runs runs the program of a call, unless it has run.
func (d *driver) runs(r sal.Request) {
	h := d.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.programs[r.UID]; p == nil || p.returned != 0 && p.returned <= r.Call.Known {
		h.effects[r.Key]++
		h.order = append(h.order, r.Key)
		h.programs[r.UID] = &program{failed: h.failing}
	}
}

// returns returns the result of a program.
func (d *driver) returns(r sal.Request) (sal.Outcome, error) {
	h := d.host
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.programs[r.UID]
	p.returned = cmp.Or(p.returned, r.Call.Attempt)
	if p.failed {
		return sal.Outcome{}, writ.Errorf(writ.CodeProgramFailed, "it ended with exit code 3")
	}
	return sal.Outcome{Change: writ.ChangeUpdated, Values: map[string]any{"name": r.Resource.Name}}, nil
}

// DeleteResult implements sal.Resuming.
func (d *driver) DeleteResult(_ context.Context, r sal.Request) error {
	h := d.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deleted = append(h.deleted, r.Key)
	if p := h.programs[r.UID]; p != nil && p.returned != 0 && p.returned <= r.Call.Attempt {
		delete(h.programs, r.UID)
	}
	return nil
}

func (h *host) setFailing(failing bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failing = failing
}

func (d *driver) enter(resource writ.ResourceID) (leave func()) {
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	d.host.atOnce[resource]++
	d.host.most = max(d.host.most, d.host.atOnce[resource])
	return func() {
		d.host.mu.Lock()
		defer d.host.mu.Unlock()
		d.host.atOnce[resource]--
	}
}

func (d *driver) effect(r sal.Request) sal.Outcome {
	h := d.host
	h.mu.Lock()
	defer h.mu.Unlock()
	values := map[string]any{"name": r.Resource.Name}
	_, exists := h.things[r.Resource]
	switch {
	case r.Operation.Effect == catalog.Look && r.Operation.Repeat == catalog.Safe:
		return sal.Outcome{}
	case r.Operation.Effect == catalog.Make && exists, r.Operation.Effect == catalog.Remove && !exists:
		return sal.Outcome{Change: writ.ChangeUnchanged, Values: values}
	}
	h.effects[r.Key]++
	h.order = append(h.order, r.Key)
	switch r.Operation.Effect {
	case catalog.Make:
		h.things[r.Resource] = r.UID
		return sal.Outcome{Change: writ.ChangeCreated, Values: values}
	case catalog.Remove:
		delete(h.things, r.Resource)
		return sal.Outcome{Change: writ.ChangeDeleted, Values: values}
	}
	return sal.Outcome{Change: writ.ChangeUpdated, Values: values}
}

func (d *driver) Observe(_ context.Context, resource writ.ResourceID) (sal.Observation, error) {
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	uid, exists := d.host.things[resource]
	return sal.Observation{Exists: exists, UID: uid, State: d.host.state}, nil
}

func (d *driver) Written(context.Context, writ.ResourceID, string) (bool, error) {
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	return d.host.wrote, nil
}

func (d *driver) List(context.Context) ([]writ.ResourceID, error) { return nil, nil }
