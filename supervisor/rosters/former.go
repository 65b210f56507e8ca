package rosters

import (
	"sync"

	"writ/identity"
)

// WasCoordinator reports whether an address belongs to a coordinator of the present or an earlier roster.
func (k *Keeper) WasCoordinator(address string) bool { return k.former.has(address) }

// formerAddresses holds all coordinator addresses of the present and earlier rosters. The zero value is ready to use.
type formerAddresses struct {
	mu  sync.Mutex
	all map[string]bool
}

func (f *formerAddresses) note(r *identity.Roster) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = make(map[string]bool)
	}
	for _, c := range r.Coordinators {
		for _, url := range c.URLs {
			f.all[url] = true
		}
	}
}

func (f *formerAddresses) has(address string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[identity.CoordinatorURL(address)]
}
