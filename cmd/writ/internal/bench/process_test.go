package bench

import (
	"sync"
	"testing"
)

// Sites with many datacenters choose all addresses before their processes listen.
func TestFreeAddressesAreDifferent(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var group sync.WaitGroup
	seen := make(map[string]bool)
	for range 500 {
		group.Go(func() {
			address, err := freeAddress()
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[address] {
				t.Errorf("%q, %v: already given", address, err)
			}
			seen[address] = true
		})
	}
	group.Wait()
}
