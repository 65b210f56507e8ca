package netconfig

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
)

// resolvConf writes resolv.conf from the nameservers of all cards.
type resolvConf struct {
	file string

	mu      sync.Mutex
	learned map[source][]netip.Addr
}

// source is the origin of nameservers: a card and a way of learning them. Programs use nameservers in the order of
// their sources.
type source struct {
	card int
	way  way
}

type way int

const (
	byDHCP way = iota
	byRouter
	byDHCPv6
)

// set replaces the nameservers of a source and writes the file. The configured nameservers come first.
func (r *resolvConf) set(from source, servers, configured []netip.Addr) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learned[from] = servers
	var text strings.Builder
	for _, server := range resolvers(configured, r.learned) {
		fmt.Fprintf(&text, "nameserver %s\n", server)
	}
	if err := os.WriteFile(r.file+".new", []byte(text.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(r.file+".new", r.file)
}

// forget removes the nameservers of a card. The next call of set writes the file.
func (r *resolvConf) forget(card int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.learned, func(from source, _ []netip.Addr) bool { return from.card == card })
}

// resolvers merges all nameservers without duplicates. The configured nameservers come first, then the learned
// nameservers by card index and way.
func resolvers(configured []netip.Addr, told map[source][]netip.Addr) []netip.Addr {
	all := slices.Clone(configured)
	for _, from := range slices.SortedFunc(maps.Keys(told),
		func(a, b source) int { return cmp.Or(a.card-b.card, int(a.way-b.way)) }) {
		for _, one := range told[from] {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}
