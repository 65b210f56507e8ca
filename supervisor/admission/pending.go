package admission

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/supervisor/journal"
)

const (
	// maxPending limits the nodes that wait for a statement, because any client of the node API can add one.
	// Together with maxAgeKey it limits their memory.
	maxPending = 100
	maxAgeKey  = 128
	// pendingLife is how long a node is kept after its last request. A waiting node repeats its request every five
	// seconds.
	pendingLife = time.Minute
	// maxPendingLogged limits the waiting nodes that are logged per minute.
	maxPendingLogged = 10
)

// Pending holds the nodes that ask for admission without a token. A stranger can create any number of such nodes, so
// they are in memory only, own no name, and are limited. A new node above the limit displaces the oldest node of the
// network with the most nodes. A waiting node repeats its request, and its ID is derived from its key. After a
// displacement or a restart of the supervisor, it therefore has the same ID again within seconds.
type Pending struct {
	mu    sync.Mutex
	nodes map[writ.NodeID]*pendingNode
	full  bool // nodes are being displaced, which was logged

	minute time.Time // start of the counted minute
	logged int       // waiting nodes that were logged in this minute
}

type pendingNode struct {
	journal.Node
	from  string    // the network that it asks from
	since time.Time // first request, by the monotonic clock
	asked time.Time // last request, by the monotonic clock
}

// NewPending returns an empty table.
func NewPending() *Pending { return &Pending{nodes: make(map[writ.NodeID]*pendingNode)} }

// nodeIDOf returns the ID of a node, which is derived from its key.
func nodeIDOf(datacenter writ.DatacenterID, key ed25519.PublicKey) writ.NodeID {
	return writ.NodeID(writ.UUIDOf(fmt.Appendf(nil, "writ-node-id-v1\x00%s\x00%s", datacenter, key)))
}

// Ask records a request of a node from a network and returns the stored node. news is true for the first request.
// crowded is true once when nodes begin to be displaced.
func (p *Pending) Ask(n journal.Node, from string, now time.Time) (kept journal.Node, news, crowded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(now)
	if known := p.nodes[n.ID]; known != nil {
		known.asked = now
		known.Name, known.AgeKey, known.Serial, known.Host = n.Name, n.AgeKey, n.Serial, n.Host
		return known.Node, false, false
	}
	if len(p.nodes) >= maxPending {
		crowded = !p.full
		p.full = true
		delete(p.nodes, p.displaced())
	} else {
		p.full = p.full && len(p.nodes) >= maxPending/2
	}
	p.nodes[n.ID] = &pendingNode{Node: n, from: from, since: now, asked: now}
	return n, true, crowded
}

// displaced returns the oldest node of the network that most nodes ask from. The caller holds mu.
func (p *Pending) displaced() writ.NodeID {
	count := make(map[string]int)
	for _, n := range p.nodes {
		count[n.from]++
	}
	var oldest *pendingNode
	for _, n := range p.nodes {
		if oldest == nil ||
			cmp.Or(cmp.Compare(count[oldest.from], count[n.from]), n.since.Compare(oldest.since), cmp.Compare(n.ID, oldest.ID)) <
				0 {
			oldest = n
		}
	}
	return oldest.ID
}

// expire removes the nodes whose last request is older than pendingLife. The caller holds mu.
func (p *Pending) expire(now time.Time) {
	for id, n := range p.nodes {
		if now.Sub(n.asked) > pendingLife {
			delete(p.nodes, id)
		}
	}
}

// mayLog reports whether another waiting node may be logged, at most maxPendingLogged per minute. Otherwise a stranger
// could fill the log.
func (p *Pending) mayLog(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.minute) >= time.Minute {
		p.minute, p.logged = now, 0
	}
	p.logged++
	return p.logged <= maxPendingLogged
}

// Get returns a waiting node, nil if unknown.
func (p *Pending) Get(id writ.NodeID) *journal.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(time.Now())
	if n := p.nodes[id]; n != nil {
		found := n.Node
		return &found
	}
	return nil
}

// Remove removes a node after a decision about it.
func (p *Pending) Remove(id writ.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.nodes, id)
}

// List returns all waiting nodes by name and ID.
func (p *Pending) List() []writ.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(time.Now())
	all := make([]writ.Node, 0, len(p.nodes))
	for _, n := range p.nodes {
		all = append(all, n.Node.Node)
	}
	slices.SortFunc(all, func(a, b writ.Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return all
}
