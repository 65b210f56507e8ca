package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// Decide verifies a signed statement and does what it says. What it answers is on disk with the effect; the same statement again
// gets the same answer and has no other effect.
func (s *Supervisor) Decide(ctx context.Context, signed []byte) (link.StatementAnswer, error) {
	verified, err := s.verifier().Statement(signed)
	if err != nil {
		return link.StatementAnswer{}, err
	}
	if answer, err := s.answered(ctx, verified.Digest); answer != nil || err != nil {
		return orZero(answer), err
	}
	statement := verified.Statement
	var answer link.StatementAnswer
	switch statement.Kind() + " " + statement.Decision {
	case "run cancel":
		answer, err = s.cancel(ctx, verified)
	case "run resume":
		answer, err = s.resume(ctx, verified)
	case "token create":
		answer, err = s.createToken(ctx, verified)
	case "secret set":
		answer, err = s.setSecret(ctx, verified)
	case "secret remove":
		answer, err = s.removeSecret(ctx, verified)
	case "node approve", "node reject", "node remove", "node cordon", "node uncordon", "node drain", "node label":
		answer, err = s.decideNode(ctx, verified)
	default:
		err = writ.Errorf(writ.CodeVerbUnsupported, "this supervisor cannot %s a %s yet", statement.Decision, statement.Kind())
	}
	if sqldb.IsDuplicate(err) { // it came twice at the same time, and the other was faster
		known, err := s.answered(ctx, verified.Digest)
		return orZero(known), err
	}
	if err == nil {
		s.Log.Info("statement carried out", "caller", verified.Signer, "subject", statement.Subject, "decision", statement.Decision)
	}
	return answer, err
}

// answered returns the answer to a statement that was carried out before, nil if it was not.
func (s *Supervisor) answered(ctx context.Context, digest writ.Digest) (*link.StatementAnswer, error) {
	var body []byte
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		body, err = tx.StatementAnswer(digest)
		return err
	})
	if err != nil || body == nil {
		return nil, err
	}
	answer := new(link.StatementAnswer)
	return answer, json.Unmarshal(body, answer)
}

func orZero(a *link.StatementAnswer) link.StatementAnswer {
	if a == nil {
		return link.StatementAnswer{}
	}
	return *a
}

// record keeps a statement with its answer, in the transaction of its effect.
func record(tx *journal.Tx, v *identity.VerifiedStatement, answer link.StatementAnswer) error {
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return tx.AddStatement(v.Digest, v.Signed, body, v.Statement.Expires)
}

func (s *Supervisor) cancel(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	id := writ.RunID(v.Statement.ID())
	if _, err := s.stored(ctx, id); err != nil {
		return link.StatementAnswer{}, err
	}
	answer := link.StatementAnswer{Subject: v.Statement.Subject, Done: fmt.Sprintf("run %s is being cancelled", id)}
	why := writ.Errorf(writ.CodeRunCancelled, "cancelled by %s", v.Signer)
	if v.Statement.Reason != "" {
		why.Message += ": " + v.Statement.Reason
	}
	done := make(chan error, 1)
	s.turns.post(id, mail{
		stop: &stop{state: writ.RunCancelled, err: why, by: s.Now().Add(stopWithin)},
		also: func(tx *journal.Tx) error { return record(tx, v, answer) },
		done: done,
	})
	select {
	case err := <-done:
		return answer, err
	case <-ctx.Done():
		return link.StatementAnswer{}, ctx.Err()
	}
}

func (s *Supervisor) createToken(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	grant, err := identity.ParseTokenGrant(v.Statement)
	if err != nil {
		return link.StatementAnswer{}, err
	}
	answer := link.StatementAnswer{Subject: v.Statement.Subject, Done: fmt.Sprintf("token %s admits one node until %s", grant.ID, grant.Expires.Format(time.RFC3339))}
	err = s.Journal.Write(failpoint.At(ctx, failpoint.TokenMade), func(tx *journal.Tx) error {
		if err := tx.AddToken(journal.Token{ID: grant.ID, Key: grant.Key[:], CreatedBy: v.Signer, Expires: grant.Expires}); err != nil {
			return err
		}
		return record(tx, v, answer)
	})
	return answer, err
}

// decideNode changes the admission, the scheduling or the labels of a node.
func (s *Supervisor) decideNode(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	var answer link.StatementAnswer
	err := s.changeNode(ctx, writ.NodeID(v.Statement.ID()), func(tx *journal.Tx, n *journal.Node) error {
		if n == nil {
			return writ.Errorf(writ.CodeNotFound, "there is no node %s", v.Statement.ID()).WithHint("`writ node list` shows them")
		}
		answer = link.StatementAnswer{Subject: v.Statement.Subject}
		var err error
		if v.Statement.Decision == identity.DecisionLabel {
			answer.Done, err = label(n, v.Statement)
		} else {
			err = applyDecision(n, v.Statement.Decision)
			answer.Done = fmt.Sprintf("node %s is %s and %s", n.Name, n.Admission, n.Scheduling)
		}
		if err != nil {
			return err
		}
		return record(tx, v, answer)
	})
	if err != nil {
		return link.StatementAnswer{}, err
	}
	return answer, nil
}

// changeNode lets change decide about a node, nil if there is none, as the journal has it.
func (s *Supervisor) changeNode(ctx context.Context, id writ.NodeID, change func(tx *journal.Tx, n *journal.Node) error) error {
	var n *journal.Node
	err := s.Journal.Write(failpoint.At(ctx, failpoint.NodeDecided), func(tx *journal.Tx) (err error) {
		if n, err = tx.Node(id); err != nil {
			return err
		}
		if err := change(tx, n); err != nil {
			return err
		}
		n.Decisions++
		if err := tx.PutNode(n); err != nil {
			return err
		}
		shown, known := s.fleet.get(id) // what it says of itself is newer there than in the journal
		if !known {
			shown = n.Node
		}
		shown.Admission, shown.Scheduling, shown.Labels = n.Admission, n.Scheduling, n.Labels
		tx.AddEvents(writ.Event{Node: &shown})
		return nil
	})
	if err == nil {
		s.fleet.put(*n)
		s.accounts.rouse()
	}
	return err
}

// label changes the labels of a node as a statement says, and returns what it has then.
func label(n *journal.Node, s *identity.Statement) (done string, err error) {
	change, err := identity.ParseLabelChange(s)
	if err != nil {
		return "", err
	}
	after := change.Apply(n.Labels)
	if len(after) > writ.MaxLabels {
		return "", writ.Errorf(writ.CodeConflict, "node %s would have %d labels; it can have %d", n.Name, len(after), writ.MaxLabels).
			WithHint("remove one with `writ node label %s NAME-`", n.Name)
	}
	n.Labels = after
	if len(after) == 0 {
		return fmt.Sprintf("node %s has no labels", n.Name), nil
	}
	return fmt.Sprintf("node %s has %s", n.Name, writ.LabelsText(after)), nil
}

// applyDecision moves a node as a decision says. What it is already is success.
func applyDecision(n *journal.Node, decision string) error {
	admissions := map[string]writ.Admission{
		"approve": writ.AdmissionApproved, "reject": writ.AdmissionRejected, "remove": writ.AdmissionRemoved,
	}
	if to, ok := admissions[decision]; ok {
		if n.Admission != to && !writ.CanMove(writ.AdmissionMoves, n.Admission, to) {
			return writ.Errorf(writ.CodeConflict, "node %s is %s and cannot become %s", n.Name, n.Admission, to)
		}
		n.Admission = to
		return nil
	}
	to := map[string]writ.Scheduling{
		"cordon": writ.SchedulingCordoned, "uncordon": writ.SchedulingOpen, "drain": writ.SchedulingDraining,
	}[decision]
	if n.Scheduling != to && !writ.CanMove(writ.SchedulingMoves, n.Scheduling, to) {
		return writ.Errorf(writ.CodeConflict, "node %s is %s and cannot become %s", n.Name, n.Scheduling, to)
	}
	n.Scheduling = to
	return nil
}
