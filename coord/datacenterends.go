package coord

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/expiry"
	"writ/identity"
	"writ/internal/sleep"
	"writ/supervisor/link"
)

// datacenterEndsEvery is the interval between two requests to all datacenters for their expiring items.
const datacenterEndsEvery = 5 * time.Minute

// datacenterEnds caches the expiring tokens, batches and certificates from the last answer of each datacenter.
type datacenterEnds struct {
	mu  sync.Mutex
	all map[link.Verb]map[writ.DatacenterID][]identity.Expiry // by question
}

// list returns the expiring items of all datacenters.
func (d *datacenterEnds) list() (all []identity.Expiry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, verb := range []link.Verb{link.VerbTokens, link.VerbBatches, link.VerbCertificates} {
		for _, id := range slices.Sorted(maps.Keys(d.all[verb])) {
			all = append(all, d.all[verb][id]...)
		}
	}
	return all
}

// ask requests the expiring items of all datacenters.
func (d *datacenterEnds) ask(ctx context.Context, c *Coordinator) {
	now := c.Now()
	askEnds(ctx, d, c, link.VerbTokens, link.Tokens{}, func(name string, all []writ.JoinToken) []identity.Expiry { return expiry.Tokens(name, all, now) })
	askEnds(ctx, d, c, link.VerbBatches, link.Batches{}, func(name string, all []api.Batch) []identity.Expiry { return expiry.Batches(name, all, now) })
	askEnds(ctx, d, c, link.VerbCertificates, link.Certificates{}, expiry.Certificates)
}

// askEnds sends one request to all datacenters. A datacenter that does not answer keeps its previous items.
func askEnds[T any](ctx context.Context, d *datacenterEnds, c *Coordinator, verb link.Verb, question any, endsOf func(name string, all []T) []identity.Expiry) {
	answers, err := askAll[T](ctx, c, "", verb, question)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := make(map[writ.DatacenterID][]identity.Expiry)
	for _, a := range answers {
		if next[a.ID] = d.all[verb][a.ID]; a.err == nil {
			next[a.ID] = endsOf(a.Name, a.answer)
		}
	}
	if d.all == nil {
		d.all = make(map[link.Verb]map[writ.DatacenterID][]identity.Expiry)
	}
	d.all[verb] = next
}

// firstEnds is the delay of the first request after the start. Datacenters connect within it.
const firstEnds = 10 * time.Second

// followEnds asks all datacenters periodically until ctx ends.
func (c *Coordinator) followEnds(ctx context.Context) error {
	if sleep.For(ctx, firstEnds) != nil {
		return nil
	}
	return every(ctx, datacenterEndsEvery, func(ctx context.Context) { c.expiring.ask(ctx, c) })
}
