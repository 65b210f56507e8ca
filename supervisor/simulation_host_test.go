package supervisor_test

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// simHost is the host of a simulated node, with the effects of operations. It outlives the runners.
type simHost struct {
	seed uint64
	calm func() bool           // reports whether the faults are over
	dies func(at string) error // randomly kills the runner, and returns an error if it did

	mu        sync.Mutex
	resources map[writ.ResourceID]writ.UID
	made      map[writ.UID]bool        // resources that were created
	once      map[writ.JobKey]int      // effects of non-repeatable operations
	uids      map[writ.JobKey]writ.UID // resources of effects
	programs  map[writ.UID]*simProgram
}

// simProgram is a program that was run by a call.
type simProgram struct {
	key      writ.JobKey // job that ran it
	returned int         // attempt that returned the result
}

func newSimHost(seed uint64) *simHost {
	return &simHost{
		seed: seed, resources: make(map[writ.ResourceID]writ.UID), made: make(map[writ.UID]bool), once: make(map[writ.JobKey]int),
		uids: make(map[writ.JobKey]writ.UID), programs: make(map[writ.UID]*simProgram),
	}
}

// drivers returns a driver for each module that simulated scripts use.
func (h *simHost) drivers() []sal.Driver {
	var all []sal.Driver
	for _, module := range []string{"image", "volume", "container", "node"} {
		all = append(all, simDriver{h, module})
	}
	return all
}

type simDriver struct {
	host   *simHost
	module string
}

func (d simDriver) Describe() writ.NodeDriver {
	return writ.NodeDriver{Module: d.module, Name: "test", Simulated: true}
}

func (d simDriver) Observe(_ context.Context, resource writ.ResourceID) (sal.Observation, error) {
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	uid, ok := d.host.resources[resource]
	return sal.Observation{Exists: ok, UID: uid, State: "there"}, nil
}

func (d simDriver) List(context.Context) ([]writ.ResourceID, error) { return nil, nil }

// randomFor returns a random source that depends only on the seed and the parts.
func randomFor(seed uint64, parts ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, parts...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

func keyOf(text string) (key writ.JobKey) {
	run, rest, _ := strings.Cut(text, "-")
	key.Run = writ.RunID(run)
	fmt.Sscanf(rest, "%d-%d", &key.Seq, &key.Attempt)
	return key
}

// Do takes effect in the middle of its duration, unless a random fault comes first.
func (d simDriver) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	h, key := d.host, keyOf(r.Key)
	luck := randomFor(h.seed, "do", r.Operation.Name(), r.Resource.Name, key.Seq, key.Attempt)
	took := time.Duration(luck.Int64N(int64(4 * time.Second)))
	stuck := false
	switch n := luck.IntN(100); {
	case r.Operation.Module == "node":
		took /= 100
	case n < 4:
		took *= 20
	case n < 6:
		took, stuck = took*40, true
	}
	if h.calm() {
		took, stuck = min(took, 4*time.Second), false
	}
	wait := func(d time.Duration) error {
		if stuck {
			time.Sleep(d) // ignores the context
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	if err := wait(took / 2); err != nil {
		return sal.Outcome{}, err
	}
	switch n := luck.IntN(100); {
	case n < 6 && key.Attempt <= 2:
		return sal.Outcome{}, writ.Errorf(writ.CodeInjected, "injected for now")
	case n < 8 && r.Operation.Effect != catalog.Remove:
		return sal.Outcome{}, writ.Errorf(writ.CodeInjectedFinal, "injected failure")
	}
	if err := h.dies("before"); err != nil {
		return sal.Outcome{}, err
	}
	change, err := h.effect(r, key)
	if err != nil {
		return sal.Outcome{}, err
	}
	if err := h.dies("after"); err != nil {
		return sal.Outcome{}, err
	}
	if err := wait(took / 2); err != nil {
		return sal.Outcome{}, err
	}
	values := answerOf(r)
	if r.Operation.Repeat == catalog.Resume {
		values["stdout"] = h.resultOf(r)
	}
	return sal.Outcome{Change: change, Values: values}, nil
}

// runs executes the program of a call, unless it was executed before.
func (h *simHost) runs(r sal.Request, key writ.JobKey) {
	if p := h.programs[r.UID]; p == nil || p.returned != 0 && p.returned <= r.Call.Known {
		h.once[key]++
		h.programs[r.UID] = &simProgram{key: key}
	}
}

// resultOf returns the output of a program: the key of its job.
func (h *simHost) resultOf(r sal.Request) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.programs[r.UID]
	p.returned = cmp.Or(p.returned, r.Call.Attempt)
	return p.key.String()
}

// effect applies an operation as package sal specifies.
func (h *simHost) effect(r sal.Request, key writ.JobKey) (writ.Change, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !r.Operation.Named() {
		return writ.ChangeNone, nil
	}
	uid, there := h.resources[r.Resource]
	switch {
	case there && (uid != r.UID || r.Operation.Effect == catalog.Run):
		return "", writ.Errorf(writ.CodeResourceConflict, "the %s has another uid", r.Resource)
	case !there && r.Operation.Effect == catalog.Remove:
		return writ.ChangeUnchanged, nil
	case r.Operation.Effect == catalog.Run:
		h.uids[key] = r.UID
		h.runs(r, key)
		return writ.ChangeUpdated, nil
	case !there && r.Operation.Effect != catalog.Make:
		return "", writ.Errorf(writ.CodeResourceUnknown, "there is no %s", r.Resource)
	}
	h.uids[key] = r.UID
	if r.Operation.Repeat == catalog.Once {
		h.once[key]++
	}
	switch r.Operation.Effect {
	case catalog.Remove:
		delete(h.resources, r.Resource)
		return writ.ChangeDeleted, nil
	case catalog.Make:
		if there {
			return writ.ChangeUnchanged, nil
		}
		h.resources[r.Resource] = r.UID
		h.made[r.UID] = true
		return writ.ChangeCreated, nil
	case catalog.Alter:
		return writ.ChangeUpdated, nil
	default:
		return writ.ChangeNone, nil
	}
}

// answerOf returns the required result fields of an operation. The output of a program is the key of its job.
func answerOf(r sal.Request) map[string]any {
	values := map[string]any{}
	for _, f := range r.Operation.Result {
		if f.Required {
			values[f.Name] = map[catalog.Type]any{
				catalog.String: "x", catalog.Int: int64(1), catalog.Bool: true, catalog.List: []any{}, catalog.Map: map[string]any{},
			}[f.Type]
		}
	}
	if r.Operation.Named() {
		values["name"], values["uid"] = r.Resource.Name, string(r.UID)
	}
	if _, ok := values["stdout"]; ok {
		values["stdout"] = r.Key
	}
	return values
}
