package decision

import (
	"context"
	"log/slog"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/supervisor/answers"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/mail"
	"writ/supervisor/workflow"
)

// Nodes changes the admission, the scheduling and the labels of nodes. All fields are required.
type Nodes struct {
	Journal *journal.Journal
	Answers *answers.Store
	// Pending returns a node that waits for admission and has no record in the journal, or nil.
	Pending func(id writ.NodeID) *journal.Node
	// Member returns a node with its newest report, which is newer than the record in the journal.
	Member func(id writ.NodeID) (writ.Node, bool)
	// Changed is called with the new record of a node after its commit. The next commit waits for the call, because its
	// steps must see the record.
	Changed func(n journal.Node)
	// Post delivers mail to a run.
	Post func(run writ.RunID, m mail.Mail)
	Log  *slog.Logger
}

// Decide carries out a statement about a node.
func (d *Nodes) Decide(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	answer := link.StatementAnswer{Subject: v.Statement.Subject}
	var waiting []writ.RunID // runs with open calls on the node, if it is gone or removed
	id := writ.NodeID(v.Statement.ID())
	err := d.Change(ctx, id, func(tx *journal.Tx, n *journal.Node) (err error) {
		if n == nil {
			return writ.Errorf(writ.CodeNotFound, "this datacenter has no node %s", v.Statement.ID()).
				WithHint("`writ node list` lists the nodes")
		}
		if err := sameNode(n, v.Statement.Seen); err != nil {
			return err
		}
		n.Decisions++
		n.Decided = workflow.Decided(n.Decided, recordOf(v, tx.Now))
		if answer.Done, err = applyTo(n, v.Statement); err != nil {
			return err
		}
		switch {
		case v.Statement.Decision == identity.DecisionLost:
			n.Lost = v.Signed
			waiting, err = workflow.FreeNames(tx, n)
		case n.Admission == writ.AdmissionRemoved:
			waiting, err = tx.RunsOn(n.ID)
		}
		if err != nil {
			return err
		}
		return d.Answers.Record(tx, v, &answer)
	})
	if err != nil {
		return link.StatementAnswer{}, err
	}
	for _, run := range append(waiting, d.boundSince(ctx, id)...) {
		// if a crash loses this mail, the next supervisor finds these runs at its start
		d.Post(run, mail.Mail{LostNodes: []writ.NodeID{id}})
	}
	return answer, nil
}

// boundSince returns the runs with calls on a node that was removed. Steps in the commit that removed the node could
// still bind calls to it.
func (d *Nodes) boundSince(ctx context.Context, id writ.NodeID) []writ.RunID {
	if n, _ := d.Member(id); n.Admission != writ.AdmissionRemoved {
		return nil
	}
	runs, err := journal.Query(ctx, d.Journal, func(tx *journal.Tx) ([]writ.RunID, error) { return tx.RunsOn(id) })
	if err != nil && ctx.Err() == nil {
		d.Log.Warn("runs on a node that was removed cannot be read; the watch finds them", "node", id, "err", err)
	}
	return runs
}

// Change calls change with the record of a node, and writes the record. change gets nil for an unknown node, and must
// then return an error. If the change is a decision, change increments n.Decisions.
func (d *Nodes) Change(
	ctx context.Context, id writ.NodeID, change func(tx *journal.Tx, n *journal.Node) error,
) error {
	return d.Journal.Write(failpoint.At(ctx, failpoint.NodeDecided), func(tx *journal.Tx) error {
		n, err := tx.Node(id)
		if err != nil {
			return err
		}
		if n == nil {
			n = d.Pending(id)
		}
		if err := change(tx, n); err != nil {
			return err
		}
		if n.Admission == writ.AdmissionApproved {
			if other, err := tx.NodeNamed(n.Name); err != nil {
				return err
			} else if other != nil && other.ID != n.ID {
				return NameTaken(n.Name)
			}
		}
		n.Revision = n.Decisions
		if err := tx.PutNode(n); err != nil {
			return err
		}
		shown := d.shown(n)
		tx.AddEvents(writ.Event{Node: &shown})
		tx.Then(func() { d.Changed(*n) })
		return nil
	})
}

// shown returns a changed node for display: the decided fields of its record, and all other fields from its newest
// report.
func (d *Nodes) shown(n *journal.Node) writ.Node {
	shown, known := d.Member(n.ID)
	if !known {
		shown = n.Node
	}
	shown.Admission, shown.Scheduling, shown.Labels, shown.Gone = n.Admission, n.Scheduling, n.Labels, n.Gone
	shown.Revision, shown.Decided, shown.Fence = n.Revision, n.Decided, n.Fence
	return shown
}
