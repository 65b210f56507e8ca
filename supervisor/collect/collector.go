// Package collect receives the messages of nodes: beats, results, and reports about resources, machines and logs. It
// verifies their signatures, limits their rate and size, and passes them to the fleet, to the runs and to the journal.
// It does not advance runs: their steps do.
package collect

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/failpoint"
	"writ/internal/sleep"
	"writ/runner/queue"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/mailbox"
	"writ/supervisor/misuse"
	"writ/supervisor/outbox"
	"writ/supervisor/ratelog"
)

// receiveWait is the longest wait of one receive. A node that joins is included in the next receive.
const receiveWait = time.Second

// Site holds the dependencies that the receivers of all kinds of messages share. All fields but Misuse are required.
type Site struct {
	Epoch    int64
	Fleet    *fleet.Fleet
	Journal  *journal.Journal
	Mailbox  *mailbox.Scheduler
	Outbox   *outbox.Outbox
	Misuse   *misuse.Counter
	Held     func() bool // reports whether no other supervisor can serve the datacenter
	Warnings *ratelog.Log
	Now      func() time.Time // wall clock
	Log      *slog.Logger
}

// Collector receives the messages of all nodes and passes each to the receiver of its kind.
type Collector struct {
	site     Site
	queue    queue.Queue
	kinds    []messageKind
	groups   *groups
	handling sync.Mutex  // held while the messages of one read are handled
	away     atomic.Bool // the queue is unavailable; only the change is logged
	readers  sync.WaitGroup
}

// messageKind is a row of the table of messages.
type messageKind struct {
	kind   envelope.Kind
	handle handler
}

// handler verifies and handles one message of a node. `stays` reports that the message must stay in the queue until its
// results are on disk. An error means that the message was rejected, without any effect.
type handler func(ctx context.Context, m queue.Message, keys envelope.Keys) (stays bool, err error)

// Receivers holds the receivers of all kinds of messages except results.
type Receivers struct {
	Beats   *Beats
	Reports *Reports
	Hosts   *Hosts
	Logs    *Logs
	Loads   *Loads
}

// New returns a collector. Run starts it.
func New(site Site, q queue.Queue, to Receivers) *Collector {
	c := &Collector{site: site, queue: q, groups: newGroups()}
	c.kinds = []messageKind{ // the most frequent kinds first
		{envelope.Beat, each(envelope.Beat, to.Beats.Receive)},
		{envelope.Result, c.receiveResults},
		{envelope.Report, each(envelope.Report, to.Reports.Receive)},
		{envelope.Host, each(envelope.Host, to.Hosts.Receive)},
		{envelope.Load, each(envelope.Load, to.Loads.Receive)},
		{envelope.Log, each(envelope.Log, to.Logs.Receive)},
	}
	return c
}

// each returns a handler that opens envelopes of a kind and passes each record to receive.
func each[T any](kind envelope.Kind, receive func(context.Context, writ.NodeID, *T)) handler {
	return func(ctx context.Context, m queue.Message, keys envelope.Keys) (bool, error) {
		records, _, err := envelope.Open[T](kind, m.Body, keys)
		for i := range records {
			receive(ctx, m.Stream.Node, &records[i])
		}
		return false, err
	}
}

// Rounds returns the number of completed rounds. In a round, the reader of each group of nodes has received and handled
// the waiting messages of its nodes.
func (c *Collector) Rounds() int64 { return c.groups.completed() }

// Run receives messages until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	defer c.readers.Wait()
	c.groups.run(func(one *group) { c.readers.Go(func() { c.read(ctx, one) }) })
	return nil
}

// read receives the messages of a group of nodes until ctx ends.
func (c *Collector) read(ctx context.Context, one *group) {
	for ctx.Err() == nil {
		if !c.site.Held() { // the messages are for the supervisor that has taken over
			_ = sleep.For(ctx, receiveWait)
			continue
		}
		streams := c.groups.streams(one, c.site.Fleet.Members.Serving)
		if len(streams) == 0 {
			c.groups.complete(one)
			_ = sleep.For(ctx, receiveWait)
			continue
		}
		messages, err := c.queue.Receive(ctx, receiveWait, streams...)
		if err != nil {
			if ctx.Err() == nil && !c.away.Swap(true) {
				c.site.Log.Warn("queue unavailable: no message of a node arrives", "err", err)
			}
			_ = sleep.For(ctx, receiveWait)
			continue
		}
		if c.away.Swap(false) {
			c.site.Log.Info("queue available again")
		}
		done := c.receiveAll(ctx, messages)
		c.groups.complete(one)
		if err := c.queue.Acknowledge(failpoint.At(ctx, failpoint.BeatsDone), done...); err != nil && ctx.Err() == nil {
			c.site.Warnings.Warn("", "remove beats from the queue", "err", err)
		}
	}
}

// receiveAll handles messages and returns the messages that can be removed from the queue.
func (c *Collector) receiveAll(ctx context.Context, messages []queue.Message) (done []queue.Message) {
	c.handling.Lock()
	defer c.handling.Unlock()
	for _, m := range messages {
		if !c.receive(ctx, m) {
			done = append(done, m)
		}
	}
	return done
}

// receive handles one message of a node. It returns true if the message must stay in the queue until its results are
// on disk. A message that cannot be opened is logged and counts against its node.
func (c *Collector) receive(ctx context.Context, m queue.Message) (stays bool) {
	stays, err := c.handle(ctx, m)
	if err != nil {
		c.site.Warnings.Refused(m.Stream.Node, "open message of a node; it is discarded", err)
		c.site.Misuse.Count(m.Stream.Node, misuse.Unreadable, 1)
	}
	return stays
}

// handle passes a message to the handler of its kind.
func (c *Collector) handle(ctx context.Context, m queue.Message) (stays bool, err error) {
	keys, kind := c.keysOf(m.Stream.Node), envelope.KindOf(m.Body)
	for _, row := range c.kinds {
		if row.kind == kind {
			return row.handle(ctx, m, keys)
		}
	}
	if kind == "" {
		return false, writ.Errorf(writ.CodeSignatureMalformed, "the message does not name its kind")
	}
	return false, writ.Errorf(writ.CodeSignatureInvalid, "a node sends no messages of the kind %q", kind)
}

// keysOf returns a lookup function for opening envelopes of node. It accepts only the key of that node, and only if the
// node is approved.
func (c *Collector) keysOf(node writ.NodeID) envelope.Keys {
	return func(id envelope.KeyID) (ed25519.PublicKey, error) {
		n := c.site.Fleet.Members.Record(node)
		if n == nil || n.Admission != writ.AdmissionApproved || envelope.IDOf(n.PublicKey) != id {
			return nil, fmt.Errorf("key %s is not the key of node %s", id, node)
		}
		return n.PublicKey, nil
	}
}

// receiveResults passes the results of a message to their runs.
func (c *Collector) receiveResults(_ context.Context, m queue.Message, keys envelope.Keys) (stays bool, err error) {
	results, _, err := envelope.Open[writ.Result](envelope.Result, m.Body, keys)
	if err != nil {
		return false, err
	}
	frame := &journal.Frame{Digest: writ.DigestOf(m.Body), Signed: m.Body}
	for _, r := range results {
		if !slices.Contains(frame.Runs, r.Run) {
			frame.Runs = append(frame.Runs, r.Run)
		}
	}
	for i, r := range results {
		a := mail.Arrival{Result: r, Node: m.Stream.Node, Frame: frame}
		if i == len(results)-1 {
			a.Message = m // the message is acknowledged with its last result; the node repeats other results that get lost
		}
		stays = c.site.Mailbox.PostResult(a)
	}
	return stays, nil
}
