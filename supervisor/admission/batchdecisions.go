package admission

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/supervisor/answers"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// BatchDecisions carries out statements about batches. All fields are required.
type BatchDecisions struct {
	Site    *Site
	Batches *Batches
	Answers *answers.Store
}

// Create carries out a statement that creates a batch.
func (d *BatchDecisions) Create(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	says, err := identity.ParseBatch(v.Statement)
	if err == nil {
		err = TakesBatches(v.Roster.Datacenter(d.Site.Datacenter))
	}
	if err == nil && d.Batches.Count(d.Site.Now()) >= MaxBatches {
		err = writ.Errorf(writ.CodeConflict, "%d batches are open in this datacenter, which is the limit", MaxBatches).
			WithHint("end one with `writ batch revoke`; `writ batch list` lists the batches")
	}
	if err != nil {
		return link.StatementAnswer{}, err
	}
	nodes, numbers := "one node", "one serial number"
	if says.Most > 1 {
		nodes = fmt.Sprintf("%d nodes", says.Most)
	}
	if len(says.Serials) > 1 {
		numbers = fmt.Sprintf("%d serial numbers", len(says.Serials))
	}
	answer := link.StatementAnswer{
		Subject: v.Statement.Subject,
		Done:    fmt.Sprintf("batch %s admits %s of %s until %s", says.ID, nodes, numbers, says.Until.Format(time.RFC3339)),
	}
	err = d.Site.Journal.Write(failpoint.At(ctx, failpoint.BatchMade), func(tx *journal.Tx) error {
		if known, err := tx.NodeBatch(says.ID); err != nil || known != nil {
			return cmp.Or[error](err,
				writ.Errorf(writ.CodeConflict, "batch %s already exists", says.ID).
					WithHint("make another one with `writ batch create`"))
		}
		b := journal.NodeBatch{ID: says.ID, Signed: v.Signed, Made: tx.Now, Until: says.Until}
		if err := tx.PutNodeBatch(&b); err != nil {
			return err
		}
		tx.Then(func() { d.Batches.Put(b) })
		return d.Answers.Record(tx, v, &answer)
	})
	return answer, err
}

// Revoke carries out a statement that ends a batch. Nodes that the batch admitted stay.
func (d *BatchDecisions) Revoke(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	id := v.Statement.ID()
	answer := link.StatementAnswer{
		Subject: v.Statement.Subject, Done: fmt.Sprintf("batch %s has ended and admits no more nodes", id),
	}
	err := d.Site.Journal.Write(failpoint.At(ctx, failpoint.BatchRevoked), func(tx *journal.Tx) error {
		b, err := tx.NodeBatch(id)
		if err == nil && b == nil {
			err = writ.Errorf(writ.CodeNotFound, "batch %s is unknown in this datacenter", id).
				WithHint("`writ batch list` lists the batches")
		}
		if err != nil {
			return err
		}
		if b.Revoked.IsZero() {
			b.Revoked = tx.Now
		}
		if b.Until.After(tx.Now) { // LoadBatches loads only the batches with the latest Until
			b.Until = tx.Now
		}
		if err := tx.PutNodeBatch(b); err != nil {
			return err
		}
		revoked := *b
		tx.Then(func() { d.Batches.Put(revoked) })
		return d.Answers.Record(tx, v, &answer)
	})
	return answer, err
}
