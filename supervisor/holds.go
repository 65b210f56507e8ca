package supervisor

import (
	"context"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/sal/catalog"
	"writ/supervisor/hold"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/workflow"
)

// What is on hold starts no work: from the commit of the statement on no job of it is made, not even one that was sent before and got lost. What a
// node has goes on, results are taken, and scripts are evaluated that have begun, so that a run which needs nothing more ends. There is one place
// where jobs are made, addDelivery, and its callers ask onHold before. Calls on hold keep no claim and no room on a node, so that they stand in
// nobody's way. See docs/decisions/0044.

// loadHolds reads the decisions of earlier supervisors.
func (s *Supervisor) loadHolds(ctx context.Context) error {
	return s.Journal.Read(ctx, func(tx *journal.Tx) error {
		all, revision, err := tx.Holds()
		s.holds.Set(all, revision, 0)
		return err
	})
}

// holdAtStart holds the datacenter if its operator wants it to start so, or if the journal has lost decisions that the mark beside the key knows of: it
// came from a backup, or somebody took them away, and what was on hold must not start.
func (s *Supervisor) holdAtStart(ctx context.Context, mark Mark) error {
	why := "the supervisor was started with --held"
	switch lost := mark.Holds > s.holds.Revision(); {
	case lost:
		why = "the journal has lost decisions about what is on hold"
		s.Log.Warn("the datacenter is on hold: "+why, "seen", time.UnixMicro(mark.Holds).UTC())
	case s.Held:
		s.Log.Info("the datacenter is on hold: " + why)
	default:
		return nil
	}
	return s.changeHolds(ctx, func(tx *journal.Tx, all identity.Holds) (next identity.Hold, err error) {
		if own := all.Of(identity.Scope{}); own != nil {
			next = *own
		}
		next.Held, next.ByOperator = true, true
		next.Decided = workflow.Decided(next.Decided, writ.Decision{Decision: identity.DecisionHold, Reason: why, Time: tx.Now})
		return next, nil
	})
}

// changeHolds lets change act on the decisions as the journal has them. It returns the next decision, about one scope. Steps that come after the
// commit know it.
func (s *Supervisor) changeHolds(ctx context.Context, change func(tx *journal.Tx, all identity.Holds) (identity.Hold, error)) error {
	return s.Journal.Write(failpoint.At(ctx, failpoint.HoldDecided), func(tx *journal.Tx) error {
		all, revision, err := tx.Holds()
		if err == nil && revision < s.holds.Revision() {
			err = writ.Errorf(writ.CodeRecordForged, "the journal has an earlier record of what is on hold than this supervisor has written").
				WithHint("find out who can write to the database of the journal, then bring it back from a backup")
		}
		if err != nil {
			return err
		}
		next, err := change(tx, all)
		if err != nil {
			return err
		}
		next.Revision = max(revision+1, tx.Now.UnixMicro()) // a journal that came from a backup gives none again
		all = slices.DeleteFunc(slices.Clone(all), func(h identity.Hold) bool { return h.Scope == next.Scope || hold.IsForgotten(all, h, tx.Now) })
		if err := hold.CheckRoom(all, next.Scope); err != nil {
			return err
		}
		all = append(all, next)
		if err := tx.PutHolds(all, next.Revision); err != nil {
			return err
		}
		tx.Then(func() { s.holds.Set(all, next.Revision, s.holds.Changes()+1) }) // before the next commit: a step of that must know it
		return nil
	})
}

// decideHold holds a scope or releases it, as a statement says.
func (s *Supervisor) decideHold(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	scope := identity.ScopeOf(v.Statement)
	if err := s.checkScope(v, scope); err != nil {
		return link.StatementAnswer{}, err
	}
	decide := s.hold
	if v.Statement.Decision == identity.DecisionRelease {
		decide = s.release
	}
	answer := link.StatementAnswer{Subject: v.Statement.Subject}
	err := s.changeHolds(ctx, func(tx *journal.Tx, all identity.Holds) (next identity.Hold, err error) {
		next.Scope, next.ProjectName = scope, v.Statement.Seen.ProjectName
		if own := all.Of(scope); own != nil {
			next = *own
		}
		if seen := all.Seen(scope); seen != v.Statement.Seen.Revision {
			return next, hold.Superseded(all, &next, v.Statement.Seen.Revision)
		}
		if answer.Done, err = decide(v, all, &next); err != nil {
			return next, err
		}
		next.Decided = workflow.Decided(next.Decided, decisionOf(v, tx.Now))
		return next, s.record(tx, v, &answer)
	})
	return answer, err
}

// checkScope refuses a statement about what is not here.
func (s *Supervisor) checkScope(v *identity.VerifiedStatement, scope identity.Scope) error {
	st := v.Statement
	switch {
	case st.Kind() == "datacenter" && (st.ID() != string(s.Datacenter) || st.Seen.Name != st.DatacenterName):
		return writ.Errorf(writ.CodeConflict, "the decision is about the datacenter %s, and this one is %s", st.Seen.Name, st.DatacenterName)
	case scope.Operation == "":
		return nil
	}
	if _, known := catalog.Lookup(scope.Operation); known || catalog.Of(scope.Operation) != nil {
		return nil
	}
	return writ.Errorf(writ.CodeNotFound, "there is no operation %q", scope.Operation).
		WithHint("say one like machine.create, or a module like machine; docs/operations.md has all")
}

// hold puts a scope on hold. That it is so already is success: then both want it so, and a release must have seen the newer decision.
func (s *Supervisor) hold(v *identity.VerifiedStatement, _ identity.Holds, h *identity.Hold) (done string, err error) {
	byOperator := v.Allows(identity.ActionScheduleNodes, "", s.Now()) == nil
	h.ByOperator = byOperator || h.Held && h.ByOperator
	h.Held = true
	return h.Text() + " is on hold: no job of it is sent until it is released", nil
}

// release lets a scope start work again. That ends a hold of its own, and takes it out of wider ones, of which the rest stays.
func (s *Supervisor) release(v *identity.VerifiedStatement, all identity.Holds, h *identity.Hold) (done string, err error) {
	over := all.Over(h.Scope)
	if len(over) == 0 {
		return "", writ.Errorf(writ.CodeConflict, "%s is not on hold", h.Text()).WithHint("`writ hold list` shows what is")
	}
	var ended []string
	for _, o := range over {
		if !o.ByOperator {
			continue
		}
		if err := v.Allows(identity.ActionScheduleNodes, "", s.Now()); err != nil {
			return "", writ.Errorf(writ.CodeRoleMissing, "%s; an operator of the datacenter releases that", hold.Text(o)).
				WithHint("it takes the role operator or admin in all projects")
		}
	}
	for _, o := range over {
		has := "has"
		if o.Scope == h.Scope { // its own hold ends; a wider one stays for the rest
			has = "had"
		}
		ended = append(ended, hold.TextSince(o, has))
	}
	h.Held, h.ByOperator = false, false
	done = h.Text() + " is released; " + strings.Join(ended, "; ")
	if rest := hold.Remaining(all, h.Scope); len(rest) > 0 {
		done += "; still on hold: " + strings.Join(rest, ", ")
	}
	return done, nil
}

// listHolds says what is on hold, and what was released.
func (s *Supervisor) listHolds() []link.Hold {
	all := s.holds.All()
	list := make([]link.Hold, len(all))
	for i, h := range all {
		list[i] = link.Hold{
			Project: h.Project, ProjectName: h.ProjectName, Deployment: h.Deployment, Operation: h.Operation, Held: h.Held, Exempt: all.Exempts(h.Scope),
			Revision: h.Revision, ByOperator: h.ByOperator, Decided: h.Decided,
		}
	}
	return list
}
