package runner

import (
	"context"
	"sync"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/failpoint"
	"writ/internal/sleep"
	"writ/runner/journal"
	"writ/runner/queue"
	"writ/supervisor/nodes"
)

// acksEvery is the interval at which acknowledgements are recorded. Results whose acknowledgement was not recorded
// before a crash are sent and acknowledged again. Sending them again costs less than a commit per message.
const acksEvery = 250 * time.Millisecond

// receiveFor limits one wait for control messages.
const receiveFor = time.Minute

// listen receives control messages from the supervisor until ctx ends.
func (n *incarnation) listen(ctx context.Context) {
	in := queue.Stream{Node: n.node, Direction: queue.In}
	for ctx.Err() == nil {
		messages, err := n.queue.Receive(ctx, receiveFor, in)
		n.link.note(ctx, err)
		if err != nil {
			_ = sleep.For(ctx, retryAfter)
			continue
		}
		if len(messages) == 0 {
			continue
		}
		if err := n.apply(ctx, messages); err != nil {
			continue // the messages come again after a restart
		}
		n.link.note(ctx, n.queue.Acknowledge(failpoint.At(ctx, failpoint.ControlsDone), messages...))
	}
}

// apply applies control messages. If it returns nil, all durable parts are on disk, except acknowledgements, which
// keepAcks records. In memory the messages take effect in any case.
func (n *incarnation) apply(ctx context.Context, messages []queue.Message) error {
	var acks, givenUp []writ.JobKey
	var asked []writ.RunID
	var queries []nodes.LogQuery
	cancels := map[writ.RunID]journal.Cancel{}
	var epoch int64
	heard := false
	for _, m := range messages {
		controls, err := n.openControl(m.Body)
		if err != nil {
			n.drop(ctx, "control message", m.ID, err)
			continue
		}
		heard = true
		for _, c := range controls {
			epoch = max(epoch, c.Epoch)
			acks = append(acks, c.Acks...)
			givenUp = append(givenUp, c.GivenUp...)
			asked = append(asked, c.Asked...)
			for run, until := range c.Cancels {
				cancels[run] = later(cancels[run],
					journal.Cancel{Until: time.UnixMilli(until), Resumes: c.Resumes[run]})
			}
			if c.Roster > 0 {
				n.rosters.want(int64(c.Roster))
			}
			if q, ok := n.logs.query(ctx, m.ID, c.Log); ok {
				queries = append(queries, q)
			}
			if c.Acknowledged != nil {
				n.keeper.acknowledge(ctx, *c.Acknowledged)
			}
		}
	}
	n.outbox.acknowledge(acks)
	if heard {
		n.counts.heard.Note(n.now())
		n.outbox.retryNow(time.Now())
	}
	n.acks.add(acks)
	n.desk.cancel(cancels)
	n.desk.giveUp(givenUp)
	err := n.epochs.raise(ctx, epoch)
	// Queries are answered even if the epoch could not be recorded, because a broken journal is a reason to read the
	// log. The supervisor drops answers of an earlier epoch.
	n.logs.ask(queries)
	if err != nil {
		return err
	}
	n.questions.add(asked) // after raise: the answer promises that no job of an earlier epoch starts any more
	ctx = context.WithoutCancel(ctx)
	if len(cancels) > 0 {
		if err := n.store.note(ctx, n.journal.Cancels.Add(ctx, cancels)); err != nil {
			return err
		}
	}
	return nil
}

// acks holds acknowledged results that are not recorded yet.
type acks struct {
	mu   sync.Mutex
	keys []writ.JobKey
}

func (a *acks) add(keys []writ.JobKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys = append(a.keys, keys...)
}

func (a *acks) take() []writ.JobKey {
	a.mu.Lock()
	defer a.mu.Unlock()
	keys := a.keys
	a.keys = nil
	return keys
}

// keepAcks records acknowledgements every acksEvery, and the remaining ones when ctx ends.
func (n *incarnation) keepAcks(ctx context.Context) {
	for more := true; more; {
		more = sleep.For(ctx, acksEvery) == nil
		// Logged by note; after a restart these results are sent again.
		_ = n.store.note(ctx, n.journal.Acknowledge(context.WithoutCancel(ctx), n.acks.take()...))
	}
}

// openControl opens a control message. The message must be signed by the supervisor and addressed to this node. Its
// epoch must be valid and at least the highest epoch that the node has seen.
func (n *incarnation) openControl(body []byte) ([]writ.Control, error) {
	controls, _, err := envelope.Open[writ.Control](envelope.Control, body, n.supervisorKey)
	if err != nil {
		return nil, err
	}
	for _, c := range controls {
		if c.Node != n.node {
			return nil, writ.Errorf(writ.CodeBadRequest, "it is for node %s", c.Node)
		}
		if epoch := n.epochs.highest(); c.Epoch < epoch {
			return nil, writ.Errorf(writ.CodeConflict, "its epoch is %d, the node has seen %d", c.Epoch, epoch)
		}
		if err := writ.CheckEpoch(c.Epoch, n.now()); err != nil {
			return nil, err
		}
	}
	return controls, nil
}
