package rehearsal

import (
	"context"
	"maps"
	"sync"

	"writ"
	"writ/sal"
	"writ/scripts/scripttest"
)

// cues holds the injected faults and replaced results of calls.
type cues struct {
	mu       sync.Mutex
	faults   []scripttest.Fault
	results  []scripttest.Substitute
	met      map[scripttest.Target]bool
	attempts map[scripttest.Target]int // by operation and resource
}

// set replaces the cues for a new run.
func (c *cues) set(faults []scripttest.Fault, results []scripttest.Substitute) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults, c.results = faults, results
	c.met, c.attempts = make(map[scripttest.Target]bool), make(map[scripttest.Target]int)
}

// untouched returns the targets of cues that have not matched a call.
func (c *cues) untouched() []scripttest.Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []scripttest.Target
	for _, f := range c.faults {
		if !c.met[f.Target] {
			all = append(all, f.Target)
		}
	}
	for _, r := range c.results {
		if !c.met[r.Target] {
			all = append(all, r.Target)
		}
	}
	return all
}

// fail returns the injected error of an attempt, or nil if the attempt is to be executed. A cue for the resource takes
// precedence over one for the operation.
func (c *cues) fail(target scripttest.Target) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found *scripttest.Fault
	for i, f := range c.faults {
		if f.Target == target || found == nil && f.Target == (scripttest.Target{Operation: target.Operation}) {
			found = &c.faults[i]
		}
	}
	if found == nil {
		return nil
	}
	c.met[found.Target] = true
	c.attempts[target]++
	if found.Times > 0 && c.attempts[target] > found.Times {
		return nil
	}
	return writ.Errorf(found.Code, "%s", found.Message)
}

// replace overrides fields of a result.
func (c *cues) replace(target scripttest.Target, values map[string]any) map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]any, len(values))
	maps.Copy(all, values)
	// A cue for the resource is applied last, so it overrides a cue for the operation.
	for _, want := range []scripttest.Target{{Operation: target.Operation}, target} {
		for _, r := range c.results {
			if r.Target == want {
				c.met[want] = true
				maps.Copy(all, r.Values)
			}
		}
	}
	return all
}

// understudy is a driver that applies the cues.
type understudy struct {
	sal.Driver
	cues *cues
}

// Do returns the injected error, or executes the operation.
func (u *understudy) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	target := scripttest.Target{Operation: request.Operation.Name(), Name: request.Resource.Name}
	if err := u.cues.fail(target); err != nil {
		return sal.Outcome{}, err
	}
	done, err := u.Driver.Do(ctx, request)
	if err == nil {
		done.Values = u.cues.replace(target, done.Values)
	}
	return done, err
}
