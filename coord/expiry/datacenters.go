package expiry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/live"
	"writ/identity/expiring"
	"writ/internal/sleep"
	"writ/supervisor/link"
)

// askEvery is the interval between two requests to all datacenters for their expiring items.
const askEvery = 5 * time.Minute

// Datacenters caches the expiring tokens, batches and certificates from the last answer of each datacenter.
type Datacenters struct {
	View *live.View
	Now  func() time.Time

	mu  sync.Mutex
	all map[link.Verb]map[writ.DatacenterID][]expiring.Item // by the verb of the request
}

// List returns the expiring items of all datacenters.
func (d *Datacenters) List() (all []expiring.Item) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, verb := range []link.Verb{link.VerbTokens, link.VerbBatches, link.VerbCertificates} {
		for _, id := range slices.Sorted(maps.Keys(d.all[verb])) {
			all = append(all, d.all[verb][id]...)
		}
	}
	return all
}

// Ask requests the expiring items of all datacenters.
func (d *Datacenters) Ask(ctx context.Context) {
	now := d.Now()
	ask(ctx, d, link.VerbTokens, link.Tokens{},
		func(name string, all []writ.JoinToken) []expiring.Item { return Tokens(name, all, now) })
	ask(ctx, d, link.VerbBatches, link.Batches{},
		func(name string, all []api.Batch) []expiring.Item { return Batches(name, all, now) })
	ask(ctx, d, link.VerbCertificates, link.Certificates{}, Certificates)
}

// ask sends one request to all datacenters. A datacenter that does not answer keeps its previous items.
func ask[T any](
	ctx context.Context, d *Datacenters, verb link.Verb, question any,
	endsOf func(name string, all []T) []expiring.Item,
) {
	answers, err := live.All[T](ctx, d.View, "", verb, question)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := make(map[writ.DatacenterID][]expiring.Item)
	for _, a := range answers {
		if next[a.ID] = d.all[verb][a.ID]; a.Err == nil {
			next[a.ID] = endsOf(a.Name, a.Answer)
		}
	}
	if d.all == nil {
		d.all = make(map[link.Verb]map[writ.DatacenterID][]expiring.Item)
	}
	d.all[verb] = next
}

// firstAsk is the delay of the first request after the start. In this time the datacenters connect.
const firstAsk = 10 * time.Second

// Run asks all datacenters periodically until ctx ends.
func (d *Datacenters) Run(ctx context.Context) error {
	if sleep.For(ctx, firstAsk) == nil {
		sleep.Every(ctx, askEvery, d.Ask)
	}
	return nil
}
