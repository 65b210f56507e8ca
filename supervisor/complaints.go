package supervisor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"writ"
	"writ/internal/tally"
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

	counts tally.Counts[Complaint]

	mu  sync.Mutex
	all map[complaint]*repeated
}

// complaint is something that a node does wrong; message is one of those that are written in this program, and code is "" unless something of the
// node was refused.
type complaint struct {
	node    writ.NodeID
	message string
	code    writ.Code
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

// of logs or counts what goes wrong with a node. node is "" if no node in particular causes it.
func (c *complaints) of(node writ.NodeID, message string, args ...any) {
	c.add(complaint{node: node, message: message}, args)
}

// refused logs or counts what is refused, with its code.
func (c *complaints) refused(node writ.NodeID, message string, why error, args ...any) {
	c.add(complaint{node, message, writ.CodeOf(why)}, append(args, "err", why))
}

func (c *complaints) add(at complaint, args []any) {
	what := Complaint{What: at.message}
	if at.code != "" {
		what.Code = at.code.Info().Code // a code that the table does not have counts as INTERNAL
	}
	c.counts.Add(what)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.all[at]; r != nil {
		r.times++
		r.args = args
		return
	}
	c.all[at] = &repeated{since: time.Now(), wait: complainAgain}
	c.warn(at, args)
}

// ofAnother is why nothing is heard of what a node says in the name of another one.
func ofAnother(node writ.NodeID) error {
	return writ.Errorf(writ.CodeBadRequest, "it is about the node %q", node)
}

// tooOften is why something of a node is not heard that it may say.
func tooOften(format string, args ...any) error {
	return writ.Errorf(writ.CodeRateLimited, format, args...)
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
	level := slog.LevelWarn
	if what.code != "" {
		args = append([]any{"code", what.code}, args...)
	}
	if what.code == writ.CodeRecordForged { // a person has to act
		level = slog.LevelError
	}
	if what.node != "" {
		args = append([]any{"node", what.node}, args...)
	}
	c.log.Log(context.Background(), level, what.message, args...)
}
