package runner_test

import (
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

	// pause is called when a driver starts an operation, and when its effect exists; an error ends the operation.
	pause func(ctx context.Context, step string, request sal.Request) error
}

// The steps at which host.pause is called.
const (
	begun = "begun"
	acted = "acted"
)

func newHost() *host {
	return &host{
		things: map[writ.ResourceID]writ.UID{}, effects: map[string]int{}, atOnce: map[writ.ResourceID]int{},
		pause: func(context.Context, string, sal.Request) error { return nil }, state: "there",
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

var _ sal.Logging = (*driver)(nil)

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
	outcome := d.effect(r)
	return outcome, pause(ctx, acted, r)
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
