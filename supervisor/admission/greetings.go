package admission

import (
	"slices"
	"sync"
	"time"
)

const (
	greetingLife = time.Minute
	maxGreetings = 10_000
)

// greetings holds the nonces sent to joiners. A nonce is valid for one minute. If the table is full, the oldest nonce
// is dropped. A stranger that sends hellos continuously cannot prevent the joins of nodes, because a joiner sends its
// claim within milliseconds.
type greetings struct {
	mu    sync.Mutex
	made  map[string]time.Time
	order []string // keys of made, oldest first
}

func newGreetings() *greetings { return &greetings{made: make(map[string]time.Time)} }

func (g *greetings) add(nonce []byte, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.order) >= maxGreetings {
		delete(g.made, g.order[0])
		g.order = slices.Delete(g.order, 0, 1)
	}
	g.order = append(g.order, string(nonce))
	g.made[string(nonce)] = now
}

func (g *greetings) valid(nonce []byte, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.made[string(nonce)]
	return ok && now.Sub(at) <= greetingLife
}
