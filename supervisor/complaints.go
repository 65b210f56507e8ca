package supervisor

import (
	"log/slog"
	"sync"
	"time"

	"writ"
)

const (
	// complainAgain is how long the same of the same node is only counted after it was logged. It doubles up to complainMost while it goes on.
	complainAgain = 10 * time.Second
	complainMost  = 10 * time.Minute
)

// complaints logs what nodes do wrong: the first time at once, and then how often it was since. What a node sends, and how often, is its own
// choice; what is logged of it is not.
type complaints struct {
	log *slog.Logger

	mu  sync.Mutex
	all map[complaint]*repeated
}

// complaint is something that a node does wrong; message is one of those that are written in this program.
type complaint struct {
	node    writ.NodeID
	message string
}

// repeated is a complaint that was logged.
type repeated struct {
	since time.Time     // it was logged then, by the monotonic clock
	wait  time.Duration // until it is logged again
	times int           // since then
	args  []any         // of the last one
}

func newComplaints(log *slog.Logger) *complaints {
	return &complaints{log: log, all: make(map[complaint]*repeated)}
}

// of logs or counts what a node does wrong. node is "" if it is nobody's fault in particular.
func (c *complaints) of(node writ.NodeID, message string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := complaint{node, message}
	if r := c.all[at]; r != nil {
		r.times++
		r.args = args
		return
	}
	c.all[at] = &repeated{since: time.Now(), wait: complainAgain}
	c.warn(at, args)
}

// pass logs what went on, and forgets what did not.
func (c *complaints) pass(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, r := range c.all {
		passed := now.Sub(r.since)
		switch {
		case passed < r.wait:
		case r.times == 0:
			delete(c.all, at)
		default:
			c.warn(at, append([]any{"times", r.times, "within", passed.Round(time.Second)}, r.args...))
			*r = repeated{since: now, wait: min(2*r.wait, complainMost)}
		}
	}
}

func (c *complaints) warn(what complaint, args []any) {
	if what.node != "" {
		args = append([]any{"node", what.node}, args...)
	}
	c.log.Warn(what.message, args...)
}
