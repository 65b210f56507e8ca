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

// acksEvery is how often it is recorded which results the supervisor has. What is not recorded when the runner dies is sent again by the
// next one, and acknowledged again: that costs less than a commit for each message.
const acksEvery = 250 * time.Millisecond

// receiveFor is how long one look at the stream of control messages waits for some.
const receiveFor = time.Second

// listen takes control messages from the supervisor until ctx ends.
func (n *incarnation) listen(ctx context.Context) {
	in := queue.Stream{Node: n.node, Direction: queue.In}
	for ctx.Err() == nil {
		messages, err := n.queue.Receive(ctx, receiveFor, in)
		n.noteTransit(ctx, err)
		if err != nil {
			_ = sleep.For(ctx, retryAfter)
			continue
		}
		if len(messages) == 0 {
			continue
		}
		if err := n.obey(ctx, messages); err != nil {
			continue // they come again when the runner starts the next time; the supervisor repeats what it needs
		}
		n.noteTransit(ctx, n.queue.Acknowledge(failpoint.At(ctx, failpoint.ControlsDone), messages...))
	}
}

// obey does what messages say. What must be remembered is on disk when it returns nil; it counts in memory in any case, and so do
// acknowledgements until keepAcks has them.
func (n *incarnation) obey(ctx context.Context, messages []queue.Message) error {
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
				cancels[run] = later(cancels[run], journal.Cancel{Until: time.UnixMilli(until), Resumes: c.Resumes[run]})
			}
			if c.Roster > 0 {
				n.rosters.want(int64(c.Roster))
			}
			if q, ok := n.logQuery(ctx, m.ID, c.Log); ok {
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
		n.outbox.hasten(time.Now())
	}
	n.acks.add(acks)
	n.desk.cancel(cancels)
	n.desk.giveUp(givenUp)
	err := n.raiseEpoch(ctx, epoch)
	n.askLog(queries) // the supervisor drops an answer of an earlier epoch; a journal that cannot be written is a reason to look at the log
	if err != nil {
		return err
	}
	n.questions.add(asked) // the answer says that nothing of an earlier epoch is begun any more
	ctx = context.WithoutCancel(ctx)
	if len(cancels) > 0 {
		if err := n.noteStore(ctx, n.journal.Cancel(ctx, cancels)); err != nil {
			return err
		}
	}
	return nil
}

// acks are results that the supervisor has, as far as that is not recorded yet.
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

// keepAcks records which results the supervisor has, now and then, and what is left when ctx ends.
func (n *incarnation) keepAcks(ctx context.Context) {
	for more := true; more; {
		more = sleep.For(ctx, acksEvery) == nil
		_ = n.noteStore(ctx, n.journal.Acknowledge(context.WithoutCancel(ctx), n.acks.take()...)) // noted; the next start sends these results again
	}
}

// openControl opens a control message: signed by the supervisor, for this node, and not of an epoch that is over.
func (n *incarnation) openControl(body []byte) ([]writ.Control, error) {
	controls, _, err := envelope.Open[writ.Control](envelope.Control, body, n.supervisorKey)
	if err != nil {
		return nil, err
	}
	for _, c := range controls {
		if c.Node != n.node {
			return nil, writ.Errorf(writ.CodeBadRequest, "it is for node %s", c.Node)
		}
		if epoch := n.epoch.Load(); c.Epoch < epoch {
			return nil, writ.Errorf(writ.CodeConflict, "its epoch is %d, the node has seen %d", c.Epoch, epoch)
		}
		if err := writ.CheckEpoch(c.Epoch, n.now()); err != nil {
			return nil, err
		}
	}
	return controls, nil
}
