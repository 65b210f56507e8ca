package watch

import (
	"context"
	"log/slog"

	"writ"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/outbox"
	"writ/supervisor/workflow"
)

// lostNodes informs the runs with calls on lost nodes.
type lostNodes struct {
	journal *journal.Journal
	members *fleet.Members
	outbox  *outbox.Outbox
	post    func(run writ.RunID, m mail.Mail)
	log     *slog.Logger
	nodes   []writ.NodeID // lost nodes whose runs are not informed yet
}

func (l *lostNodes) add(nodes []writ.NodeID) { l.nodes = append(l.nodes, nodes...) }

// inform informs every run with open calls on a lost node.
func (l *lostNodes) inform(ctx context.Context) error {
	for len(l.nodes) > 0 {
		node := l.nodes[0]
		l.log.Error("node is lost", "node", l.members.Name(node))
		runs, err := journal.Query(ctx, l.journal, func(tx *journal.Tx) ([]writ.RunID, error) { return tx.RunsOn(node) })
		if err != nil {
			return err
		}
		for _, id := range runs {
			l.post(id, mail.Mail{LostNodes: []writ.NodeID{node}})
		}
		l.nodes = l.nodes[1:]
	}
	return nil
}

// askAgain repeats withdrawals of jobs of lost nodes. The first withdrawal failed because the queue was unreachable.
// Nodes that have returned are skipped: they report their jobs themselves.
func (l *lostNodes) askAgain() {
	for _, q := range l.outbox.TakeUnanswered() {
		if n, _ := l.members.Get(q.Node); workflow.IsAway(n) {
			l.post(q.Run, mail.Mail{LostNodes: []writ.NodeID{q.Node}})
		}
	}
}
