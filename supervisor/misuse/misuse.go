// Package misuse counts the useless messages of nodes, so that nodes that send too many of them lose their queue
// account for a while. It does not suspend accounts itself.
package misuse

import (
	"sync"
	"time"

	"writ/internal/wake"

	"writ"
)

// Kind is a kind of useless message.
type Kind int

// The kinds of useless messages.
const (
	Unreadable   Kind = iota // messages that cannot be opened
	Unasked                  // results of jobs that the node never received, such as results for unknown runs
	ExtraBeats               // beats that come too often or name another node
	ExtraReports             // reports about resources, machine or log that come too often or name another node
	kinds
)

// period is the time after which the counts of a node restart.
const period = time.Minute

// limits holds the number of messages of each kind that a node may send within a period. After a restore, a node sends
// all results that are not acknowledged. While its supervisor is away, its stream fills with about 10,000 beats and one
// report per 30 beats.
var limits = [kinds]struct {
	most int
	what string
}{
	Unreadable:   {1000, "messages within %s that cannot be opened"},
	Unasked:      {20_000, "results within %s of jobs that it never received"},
	ExtraBeats:   {15_000, "unexpected beats within %s"},
	ExtraReports: {1000, "unexpected reports within %s"},
}

// Counter counts useless messages by node and holds the nodes that must be suspended. A nil Counter ignores all calls.
type Counter struct {
	exceeded wake.Signal

	mu      sync.Mutex
	counts  map[writ.NodeID]*count
	blocked map[writ.NodeID]*writ.Error // reasons to suspend nodes regardless of their counts
}

// count counts the useless messages of a node after the time `since`.
type count struct {
	since time.Time
	sent  [kinds]int
}

// New returns a counter without any messages.
func New() *Counter {
	return &Counter{
		exceeded: wake.New(), counts: make(map[writ.NodeID]*count),
		blocked: make(map[writ.NodeID]*writ.Error),
	}
}

// Exceeded signals that Take has nodes to return.
func (c *Counter) Exceeded() <-chan struct{} { return c.exceeded }

// Count adds n useless messages of a node.
func (c *Counter) Count(node writ.NodeID, kind Kind, n int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	sum := c.counts[node]
	if sum == nil || now.Sub(sum.since) > period {
		sum = &count{since: now}
		c.counts[node] = sum
	}
	sum.sent[kind] += n
	if sum.why() != nil {
		c.exceeded.Raise()
	}
}

// Block requests the suspension of a node.
func (c *Counter) Block(node writ.NodeID, why *writ.Error) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocked[node] = why
	c.exceeded.Raise()
}

// Take returns the nodes to suspend with the reasons, and forgets their counts.
func (c *Counter) Take() map[writ.NodeID]*writ.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	over := c.blocked
	c.blocked = make(map[writ.NodeID]*writ.Error)
	for node, sum := range c.counts {
		if why := sum.why(); why != nil {
			over[node] = why
			delete(c.counts, node)
		}
	}
	return over
}

// why returns an error if a count exceeds its limit, else nil.
func (c *count) why() *writ.Error {
	for kind, n := range c.sent {
		if limit := limits[kind]; n > limit.most {
			return writ.Errorf(writ.CodeQueueBudget, "it sent more than %d "+limit.what, limit.most, period)
		}
	}
	return nil
}

// OfAnother returns the error of a message that a node sent about another node.
func OfAnother(node writ.NodeID) error {
	return writ.Errorf(writ.CodeBadRequest, "it is about the node %q", node)
}

// TooOften returns the error of a message that exceeds the rate limit of its kind.
func TooOften(format string, args ...any) error {
	return writ.Errorf(writ.CodeRateLimited, format, args...)
}
