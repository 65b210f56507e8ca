package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/internal/hidden"
	"writ/internal/sqldb"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/mail"
	"writ/supervisor/workflow"
)

// Decide verifies a signed statement and applies or refuses it. Its answer is signed and stored in the transaction of the
// effect. A repeated statement gets the same answer and has no second effect.
func (s *Supervisor) Decide(ctx context.Context, signed []byte) (_ link.StatementAnswer, err error) {
	defer func() { s.counts.noteAnswer("statement", err) }()
	verifier := s.verifier()
	verified, err := verifier.Statement(signed)
	if err == nil {
		answer, err := s.decide(ctx, verified)
		if err == nil {
			return answer, nil
		}
		return s.refuseStatement(ctx, verifier, signed, verified.Digest, err)
	}
	text, _, unsplit := identity.Split(signed)
	if unsplit != nil {
		return link.StatementAnswer{}, err
	}
	return s.refuseStatement(ctx, verifier, signed, writ.DigestOf(text), err)
}

// refuseStatement refuses a statement, unless it was carried out before.
func (s *Supervisor) refuseStatement(
	ctx context.Context, verifier *identity.Verifier, signed []byte, digest writ.Digest, why error,
) (link.StatementAnswer, error) {
	err := s.refuse(ctx, identity.StatementNamespace, verifier, signed, why)
	if !errors.Is(err, errDecided) {
		return link.StatementAnswer{}, err
	}
	answer, err := s.answered(ctx, digest)
	return orZero(answer), err
}

// decide does what a statement says, if that was not decided before.
func (s *Supervisor) decide(ctx context.Context, verified *identity.VerifiedStatement) (link.StatementAnswer, error) {
	if answer, err := s.answered(ctx, verified.Digest); answer != nil && !answer.Begun || err != nil {
		return orZero(answer), err
	}
	statement := verified.Statement
	var answer link.StatementAnswer
	var err error
	switch statement.Kind() + " " + statement.Decision {
	case "run cancel":
		answer, err = s.cancel(ctx, verified)
	case "run resume":
		answer, err = s.resume(ctx, verified)
	case "project " + identity.DecisionCancelRuns, "project " + identity.DecisionResumeRuns:
		answer, err = s.decideRuns(ctx, verified)
	case "token create":
		answer, err = s.createToken(ctx, verified)
	case "token " + identity.DecisionRevoke:
		answer, err = s.revokeToken(ctx, verified)
	case "batch create":
		answer, err = s.createBatch(ctx, verified)
	case "batch " + identity.DecisionRevoke:
		answer, err = s.revokeBatch(ctx, verified)
	case "datacenter " + identity.DecisionRotate:
		answer, err = s.rotate(ctx, verified)
	case "secret set":
		answer, err = s.setSecret(ctx, verified)
	case "secret remove":
		answer, err = s.removeSecret(ctx, verified)
	case "node approve", "node reject", "node remove", "node cordon", "node uncordon", "node drain", "node lost",
		"node label":
		answer, err = s.decideNode(ctx, verified)
	case "datacenter hold", "datacenter release", "project hold", "project release", "deployment hold",
		"deployment release", "operation hold", "operation release":
		answer, err = s.decideHold(ctx, verified)
	default:
		err = writ.Errorf(writ.CodeVerbUnsupported, "this supervisor cannot %s a %s yet", statement.Decision,
			statement.Kind())
	}
	if sqldb.IsDuplicate(err) || errors.Is(err, journal.ErrRefused) || writ.CodeOf(err) == writ.CodeConflict {
		if known, err := s.answered(ctx, verified.Digest); known != nil || err != nil {
			// it came twice at the same time, and the other was faster
			return orZero(known), err
		}
	}
	if err == nil {
		s.Log.Info("statement carried out",
			"caller", signedBy(verified.Signer, verified.Certificate), "subject", statement.Subject,
			"decision", statement.Decision, "reason", hidden.Escape(statement.Reason))
	}
	return answer, err
}

// answered returns the answer to a statement that was carried out before, nil if it was not. Its error is the answer to
// one that was refused.
func (s *Supervisor) answered(ctx context.Context, digest writ.Digest) (*link.StatementAnswer, error) {
	var body []byte
	var refused *writ.Error
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		if body, err = tx.StatementAnswer(digest); body == nil && err == nil {
			refused, err = refusalOf(tx, digest)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return nil, refused
	case body == nil:
		return nil, nil
	}
	answer := new(link.StatementAnswer)
	return answer, json.Unmarshal(body, answer)
}

func orZero(a *link.StatementAnswer) link.StatementAnswer {
	if a == nil {
		return link.StatementAnswer{}
	}
	told := *a
	told.Begun = false
	return told
}

func (s *Supervisor) cancel(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	id := writ.RunID(v.Statement.ID())
	answer := link.StatementAnswer{Subject: v.Statement.Subject, Done: cancelling(id)}
	err := s.cancelRun(ctx, v, id, v.Statement.Seen, func(tx *journal.Tx) error { return s.record(tx, v, &answer) })
	if err != nil {
		return link.StatementAnswer{}, err
	}
	return answer, nil
}

func cancelling(id writ.RunID) string { return fmt.Sprintf("run %s is being cancelled", id) }

// cancelRun cancels a run that the signer of a statement saw. also is written in the same transaction.
func (s *Supervisor) cancelRun(
	ctx context.Context, v *identity.VerifiedStatement, id writ.RunID, seen identity.Seen, also func(*journal.Tx) error,
) error {
	run, err := s.stored(ctx, id)
	if err == nil {
		err = sameRun(run, seen) // what it compares never changes
	}
	if err != nil {
		return err
	}
	why := writ.Errorf(writ.CodeRunCancelled, "cancelled by %s", v.Signer)
	if v.Statement.Reason != "" {
		why.Message += ": " + v.Statement.Reason
	}
	done := make(chan error, 1)
	decision := decisionOfRun(v, s.Now())
	s.steps.Post(id, mail.Mail{
		Stop: &mail.Stop{
			State: writ.RunCancelled, Err: why, By: s.Now().Add(workflow.StopWithin), Signed: v.Statement.Created,
			Decision: &decision,
		},
		Also: also,
		Done: done,
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Supervisor) createToken(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	grant, err := identity.ParseTokenGrant(v.Statement)
	if err != nil {
		return link.StatementAnswer{}, err
	}
	does := "admits one node"
	switch {
	case grant.Role == identity.TokenRoleBoot:
		does = "lets a boot server report"
	case grant.Uses > 1:
		does = fmt.Sprintf("admits %d nodes", grant.Uses)
	}
	answer := link.StatementAnswer{
		Subject: v.Statement.Subject,
		Done:    fmt.Sprintf("token %s %s until %s", grant.ID, does, grant.Expires.Format(time.RFC3339)),
	}
	err = s.Journal.Write(failpoint.At(ctx, failpoint.TokenMade), func(tx *journal.Tx) error {
		if err := addToken(tx, grant, v.Signer); err != nil {
			return err
		}
		return s.record(tx, v, &answer)
	})
	return answer, err
}

// addToken keeps a token where its role belongs: only those of nodes are looked for when a node joins.
func addToken(tx *journal.Tx, grant identity.TokenGrant, signer string) error {
	if grant.Role == identity.TokenRoleBoot {
		return tx.AddBootToken(&journal.BootToken{ID: grant.ID, Key: grant.Key[:], CreatedBy: signer, Expires: grant.Expires})
	}
	return tx.AddToken(journal.Token{
		ID: grant.ID, Key: grant.Key[:], CreatedBy: signer, Expires: grant.Expires, Uses: grant.Uses,
	})
}

// revokeToken has a token admit nobody any more, and a boot server report no more with it. Nodes that it has admitted
// stay.
func (s *Supervisor) revokeToken(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	id := v.Statement.ID()
	answer := link.StatementAnswer{Subject: v.Statement.Subject}
	err := s.Journal.Write(failpoint.At(ctx, failpoint.TokenRevoked), func(tx *journal.Tx) error {
		token, err := tx.Token(id)
		var ofBoot *journal.BootToken
		if err == nil {
			ofBoot, err = tx.BootToken(id)
		}
		if err == nil && token == nil && ofBoot == nil {
			err = writ.Errorf(writ.CodeNotFound, "there is no token %s in this datacenter", id).
				WithHint("`writ token list` shows them")
		}
		if err == nil && ofBoot != nil {
			answer.Done = fmt.Sprintf("no boot server reports any more with the token %s, made by %s", id, ofBoot.CreatedBy)
			err = tx.RevokeBootToken(ofBoot)
		}
		if err == nil && token != nil {
			answer.Done = fmt.Sprintf("token %s, made by %s, admits no node any more", id, token.CreatedBy)
			_, err = tx.RevokeToken(id) // one that admits nobody anyway is as it should be
		}
		if err != nil {
			return err
		}
		return s.record(tx, v, &answer)
	})
	if err == nil {
		s.boots.end(id)
	}
	return answer, err
}

// listTokens says which tokens there are, and whom they admitted: those of boot servers admit none.
func (s *Supervisor) listTokens(ctx context.Context) ([]writ.JoinToken, error) {
	list := []writ.JoinToken{}
	err := s.Journal.Read(ctx, func(tx *journal.Tx) error {
		tokens, err := tx.Tokens(maxTokens)
		for _, t := range tokens {
			nodes := joinedWith(s.fleet.Members, t.ID)
			list = append(list, writ.JoinToken{
				ID: t.ID, Datacenter: s.Datacenter, CreatedBy: t.CreatedBy, Expires: s.tokenEnds(t.CreatedBy, t.Expires),
				Uses: t.Uses, Used: len(nodes), Nodes: nodes,
			})
		}
		if err != nil {
			return err
		}
		ofBoot, err := tx.BootTokens(maxBootTokens)
		for _, t := range ofBoot {
			list = append(list,
				writ.JoinToken{
					ID: t.ID, Datacenter: s.Datacenter, CreatedBy: t.CreatedBy, Expires: s.tokenEnds(t.CreatedBy, t.Expires),
					Nodes: []string{},
				})
		}
		return err
	})
	return list, err
}

// maxTokens is how many are listed: those that last longest.
const (
	maxTokens     = 200
	maxBootTokens = 50
)

// decideNode changes the admission, the scheduling or the labels of a node.
func (s *Supervisor) decideNode(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	var answer link.StatementAnswer
	var waiting []writ.RunID // for a node that is no member any more
	id := writ.NodeID(v.Statement.ID())
	err := s.changeNode(ctx, id, func(tx *journal.Tx, n *journal.Node) error {
		if n == nil {
			return writ.Errorf(writ.CodeNotFound, "there is no node %s", v.Statement.ID()).
				WithHint("`writ node list` shows them")
		}
		if err := sameNode(n, v.Statement.Seen); err != nil {
			return err
		}
		answer = link.StatementAnswer{Subject: v.Statement.Subject}
		n.Decisions++
		n.Decided = workflow.Decided(n.Decided, decisionOf(v, tx.Now))
		var err error
		if v.Statement.Decision == identity.DecisionLabel {
			answer.Done, err = label(n, v.Statement)
		} else {
			err = applyDecision(n, v.Statement.Decision)
			answer.Done = "node " + n.Name + " is " + nodeState(n)
		}
		switch {
		case err != nil:
		case v.Statement.Decision == identity.DecisionLost:
			n.Lost = v.Signed
			waiting, err = workflow.FreeNames(tx, n)
			answer.Done = fmt.Sprintf("node %s is removed, and the names of what it had are free", n.Name)
		case n.Admission == writ.AdmissionRemoved:
			waiting, err = tx.RunsOn(n.ID)
		}
		if err != nil {
			return err
		}
		return s.record(tx, v, &answer)
	})
	if err != nil {
		return link.StatementAnswer{}, err
	}
	for _, run := range append(waiting, s.boundSince(ctx, id)...) {
		// what gets lost with this process the next one finds when it begins
		s.steps.Post(run, mail.Mail{LostNodes: []writ.NodeID{id}})
	}
	return answer, nil
}

// boundSince returns the runs whose steps bound calls to a node in the very commit in which it was removed, and could
// not know it.
func (s *Supervisor) boundSince(ctx context.Context, id writ.NodeID) (runs []writ.RunID) {
	if n, _ := s.fleet.Members.Get(id); n.Admission != writ.AdmissionRemoved {
		return nil
	}
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		runs, err = tx.RunsOn(id)
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("runs on a node that was removed cannot be read; the watch finds them", "node", id, "err", err)
	}
	return runs
}

// decisionOf is what is kept of a statement with what it decides about.
func decisionOf(v *identity.VerifiedStatement, now time.Time) writ.Decision {
	return writ.Decision{Decision: v.Statement.Decision, Signer: v.Signer, Reason: v.Statement.Reason, Time: now}
}

// decisionOfRun is decisionOf for one of the runs that a statement is about: what is decided about it does not depend
// on how many there are.
func decisionOfRun(v *identity.VerifiedStatement, now time.Time) writ.Decision {
	d := decisionOf(v, now)
	d.Decision = strings.TrimSuffix(d.Decision, "-runs")
	return d
}

// sameNode refuses a decision about a node whose signer saw another one under this id, or this one before the newest
// decision about it.
func sameNode(n *journal.Node, seen identity.Seen) error {
	is := fmt.Sprintf("node %s has the id %s and the key %s; it is %s and %s, at revision %d",
		n.Name, n.ID, n.Key, n.Admission, n.Scheduling, n.Decisions)
	switch {
	case n.Name != seen.Name:
		return writ.Errorf(writ.CodeConflict, "the decision is about the node %s, and was signed for the id of another node",
			seen.Name).WithHint("%s", is)
	case n.Key != seen.Fingerprint:
		return writ.Errorf(writ.CodeConflict,
			"the decision is about the node %s with the key %s, and this one has another key",
			seen.Name, seen.Fingerprint).WithHint("%s", is)
	case int64(n.Decisions) != seen.Revision:
		return writ.Errorf(writ.CodeConflict, "the decision was made at revision %d of the node %s", seen.Revision,
			seen.Name).
			WithHint("%s; look again, then decide", is)
	}
	return nil
}

// sameRun refuses a decision about a run whose signer saw another script under this id.
func sameRun(run writ.Run, seen identity.Seen) error {
	if run.Script == seen.Name {
		return nil
	}
	return writ.Errorf(writ.CodeConflict, "the decision is about a run of %s", seen.Name).
		WithHint("run %s is one of %s in the project %s, and is %s; look again, then decide", run.ID, run.Script,
			run.ProjectName, run.State)
}

// changeNode lets change act on a node, nil if there is none, as the journal has it. A change that is a decision counts
// itself.
func (s *Supervisor) changeNode(
	ctx context.Context, id writ.NodeID, change func(tx *journal.Tx, n *journal.Node) error,
) error {
	var n *journal.Node
	err := s.Journal.Write(failpoint.At(ctx, failpoint.NodeDecided), func(tx *journal.Tx) (err error) {
		if n, err = tx.Node(id); err != nil {
			return err
		}
		if n == nil {
			n = s.pending.get(id)
		}
		if err := change(tx, n); err != nil {
			return err
		}
		if n.Admission == writ.AdmissionApproved {
			if other, err := tx.NodeNamed(n.Name); err != nil {
				return err
			} else if other != nil && other.ID != n.ID {
				return nameTaken(n.Name)
			}
		}
		n.Revision = n.Decisions
		if err := tx.PutNode(n); err != nil {
			return err
		}
		shown, known := s.fleet.Members.Get(id) // what it says of itself is newer there than in the journal
		if !known {
			shown = n.Node
		}
		shown.Admission, shown.Scheduling, shown.Labels, shown.Gone, shown.Revision = n.Admission, n.Scheduling, n.Labels, n.Gone, n.Revision
		shown.Decided = n.Decided
		shown.Fence = n.Fence
		tx.AddEvents(writ.Event{Node: &shown})
		tx.Then(func() { // before the next commit: a step of that must know it
			s.fleet.Members.Put(*n)
			s.pending.remove(id)
			s.accounts.rouse()
		})
		return nil
	})
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
		return "", writ.Errorf(writ.CodeConflict, "node %s would have %d labels; it can have %d", n.Name, len(after),
			writ.MaxLabels).
			WithHint("remove one with `writ node label %s NAME-`", n.Name)
	}
	n.Labels = after
	if len(after) == 0 {
		return fmt.Sprintf("node %s has no labels", n.Name), nil
	}
	return fmt.Sprintf("node %s has %s", n.Name, writ.LabelsText(after)), nil
}

// lookAtNode is the hint for a decision that the state of a node excludes.
const lookAtNode = "`writ node show %s` shows its state"

// nodeState returns the admission of a node, with its scheduling if it gets work at all.
func nodeState(n *journal.Node) string {
	if n.Admission != writ.AdmissionApproved {
		return string(n.Admission)
	}
	return string(n.Admission) + " and " + string(n.Scheduling)
}

// applyDecision moves a node as a decision says. What it is already is success.
func applyDecision(n *journal.Node, decision string) error {
	admissions := map[string]writ.Admission{
		"approve": writ.AdmissionApproved, "reject": writ.AdmissionRejected, "remove": writ.AdmissionRemoved,
		identity.DecisionLost: writ.AdmissionRemoved,
	}
	if to, ok := admissions[decision]; ok {
		if n.Admission != to && !writ.CanMove(writ.AdmissionMoves, n.Admission, to) {
			return writ.Errorf(writ.CodeConflict, "node %s is %s and cannot become %s", n.Name, n.Admission, to).
				WithHint(lookAtNode, n.Name)
		}
		n.Admission, n.Gone = to, n.Gone || decision == identity.DecisionLost
		return nil
	}
	to := map[string]writ.Scheduling{
		"cordon": writ.SchedulingCordoned, "uncordon": writ.SchedulingOpen, "drain": writ.SchedulingDraining,
	}[decision]
	if to == writ.SchedulingDraining && n.Scheduling == writ.SchedulingDrained {
		return nil
	}
	if n.Scheduling != to && !writ.CanMove(writ.SchedulingMoves, n.Scheduling, to) {
		return writ.Errorf(writ.CodeConflict, "node %s is %s and cannot become %s", n.Name, n.Scheduling, to).
			WithHint(lookAtNode, n.Name)
	}
	n.Scheduling = to
	return nil
}
