package saltest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// host is a directory that represents a machine, and the driver under test on it.
type host struct {
	testing.TB
	suite  Suite
	dir    string
	driver sal.Driver
	leaks  *leaks
	before []string // the traces on the host without the subject
	keys   int
	mu     sync.Mutex // guards keys
}

// newHost returns a host with everything that the suite needs, except the subject.
func (e Suite) newHost(t testing.TB) *host {
	h := &host{TB: t, suite: e, dir: hostsOr(e.Hosts).New(t)}
	h.leaks = &leaks{TB: t, dir: h.dir, handed: e.Handed}
	if e.Clear != nil {
		t.Cleanup(func() { e.Clear(t, h.dir) })
	}
	h.furnish()
	return h
}

// furnish creates on an empty host everything that the suite needs, except the subject.
func (h *host) furnish() {
	h.Helper()
	if h.suite.Prepare != nil {
		h.suite.Prepare(h, h.dir)
	}
	h.restart(nil)
	for _, o := range h.suite.Others {
		for _, s := range o.Steps {
			h.must(h.do(h.Context(), s, o.Name, uidOf(o.Name)))
		}
	}
	h.before = h.suite.traces(h, h.dir)
}

// restart opens a new driver.
func (h *host) restart(step func(name string)) {
	h.Helper()
	if step == nil {
		step = func(string) {}
	}
	h.driver = h.suite.Open(h, h.dir, step)
}

func (h *host) must(o sal.Outcome, err error) sal.Outcome {
	h.Helper()
	if err != nil {
		h.Fatalf("%s: %v", writ.CodeOf(err), err)
	}
	return o
}

func (h *host) subject() writ.ResourceID { return Resource(h.suite.kind(), subject) }

// request returns the request for a step.
func (h *host) request(s Step, resource writ.ResourceID, uid writ.UID) sal.Request {
	h.Helper()
	o, ok := catalog.Lookup(s.Operation)
	if !ok {
		h.Fatalf("unknown operation %s", s.Operation)
	}
	args, err := o.DecodeWith(s.Args, secrets)
	if err != nil {
		h.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys++
	return sal.Request{
		Operation: o, Resource: resource, UID: uid, Args: args, Key: fmt.Sprintf("suite-%d-1", h.keys),
		Progress: func(text string) { h.leaks.inText("the progress", text) },
	}
}

// do executes a step on a resource of the suite's project and checks the outcome against the catalogue.
func (h *host) do(ctx context.Context, s Step, name string, uid writ.UID) (sal.Outcome, error) {
	h.Helper()
	o, _ := catalog.Lookup(s.Operation)
	return h.carryOut(ctx, h.request(s, Resource(o.Kind, name), uid))
}

func (h *host) carryOut(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	h.Helper()
	outcome, err := h.driver.Do(ctx, r)
	h.leaks.inText("the outcome of "+r.Operation.Name(), fmt.Sprintf("%v %v", outcome, err))
	if err != nil {
		return outcome, err
	}
	for _, p := range r.Operation.Result.Check(outcome.Values, nil) {
		h.Errorf("the result of %s: %s", r.Operation.Name(), p)
	}
	want := map[string]any{"name": r.Resource.Name, "uid": string(r.UID), "simulated": h.driver.Describe().Simulated}
	for name, v := range want {
		if outcome.Values[name] != v {
			h.Errorf("the result of %s has %s %v, want %v", r.Operation.Name(), name, outcome.Values[name], v)
		}
	}
	if r.Operation.Effect == catalog.Look && outcome.Change != writ.ChangeNone {
		h.Errorf("%s is a Look operation, but its change is %q", r.Operation.Name(), outcome.Change)
	}
	return outcome, nil
}

// step executes a step on the subject.
func (h *host) step(s Step) (sal.Outcome, error) {
	h.Helper()
	return h.do(h.Context(), s, subject, uidOf(subject))
}

// expect executes a step on the subject and checks the change.
func (h *host) expect(s Step, want writ.Change) sal.Outcome {
	h.Helper()
	o := h.must(h.step(s))
	if o.Change != want {
		h.Errorf("change of %s: got %q, want %q", s.Operation, o.Change, want)
	}
	return o
}

// refuse executes a step that must fail with a code and change nothing.
func (h *host) refuse(s Step, name string, uid writ.UID, want writ.Code) {
	h.Helper()
	before := h.observe(name)
	if _, err := h.do(h.Context(), s, name, uid); writ.CodeOf(err) != want {
		h.Errorf("%s: got %q (%v), want %s", s.Operation, writ.CodeOf(err), err, want)
	}
	if diff := cmp.Diff(before, h.observe(name)); diff != "" {
		h.Errorf("%s failed and changed the state:\n%s", s.Operation, diff)
	}
}

func (h *host) observe(name string) sal.Observation {
	h.Helper()
	seen, err := h.driver.Observe(h.Context(), Resource(h.suite.kind(), name))
	if err != nil {
		h.Fatalf("observe %s: %v", name, err)
	}
	return seen
}

// loadOf returns the load of the subject, zero if the driver reports none.
func loadOf(h *host) sal.Load {
	h.Helper()
	gauged, ok := h.driver.(sal.Gauged)
	if !ok {
		return sal.Load{}
	}
	l, err := gauged.Load(h.Context(), h.subject())
	if err != nil {
		h.Fatalf("load: %v", err)
	}
	return l
}

// listed reports whether the driver lists a resource.
func (h *host) listed(resource writ.ResourceID) bool {
	h.Helper()
	all, err := h.driver.List(h.Context())
	if err != nil {
		h.Fatalf("list: %v", err)
	}
	return slices.Contains(all, resource)
}

// absent checks that no trace of the subject is left.
func (h *host) absent() {
	h.Helper()
	if seen := h.observe(subject); seen.Exists {
		h.Errorf("the subject still exists: %+v", seen)
	}
	if h.listed(h.subject()) {
		h.Error("the subject is still listed")
	}
	if diff := cmp.Diff(h.before, h.suite.traces(h, h.dir), cmpopts.EquateEmpty()); diff != "" {
		h.Errorf("traces of the subject:\n%s", diff)
	}
	h.noOrphans("after the deletion")
}

// noOrphans checks that the driver reports no orphans.
func (h *host) noOrphans(when string) {
	h.Helper()
	keeper, ok := h.driver.(sal.Keeper)
	if !ok {
		return
	}
	if orphans, err := keeper.Orphans(h.Context()); err != nil || len(orphans) > 0 {
		h.Errorf("%s: orphans: %v, %v", when, orphans, err)
	}
}

// keepSubject calls Keep for the subject, as a runner does at startup.
func (h *host) keepSubject() []sal.Drift {
	h.Helper()
	keeper, ok := h.driver.(sal.Keeper)
	if !ok {
		return nil
	}
	drift, err := keeper.Keep(h.Context(), h.subject())
	if err != nil {
		h.Errorf("keep: %v", err)
	}
	return drift
}
