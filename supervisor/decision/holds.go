package decision

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/sal/catalog"
	"writ/supervisor/answers"
	"writ/supervisor/hold"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/workflow"
)

// Holds puts work on hold and releases it. All fields are required.
//
// Work on hold does not start. After the commit of the statement, no job is made for it, not even a replacement for a
// lost delivery. Jobs that nodes have received continue, results are accepted, and scripts that have started are
// evaluated, so that a run without further calls ends. All jobs are made in addDelivery of package workflow, whose
// callers check holdOver first. Calls on hold keep neither a claim nor room on a node, so they do not block other
// calls. See docs/decisions/0044.
type Holds struct {
	Journal    *journal.Journal
	Answers    *answers.Store
	InForce    *hold.Decisions
	Datacenter writ.DatacenterID
	Now        func() time.Time
	Log        *slog.Logger
}

// Load loads the decisions of earlier supervisors from the journal.
func (d *Holds) Load(ctx context.Context) error {
	return d.Journal.Read(ctx, func(tx *journal.Tx) error {
		all, revision, err := tx.Holds()
		d.InForce.Set(all, revision, 0)
		return err
	})
}

// HoldAtStart puts the whole datacenter on hold if the operator started the supervisor with --held, or if the journal
// has lost decisions. `seen` is the newest revision in the mark file beside the supervisor's key. A journal with an
// earlier revision came from a backup or was tampered with, and work that was on hold must not start.
func (d *Holds) HoldAtStart(ctx context.Context, seen int64, held bool) error {
	why := "the supervisor was started with --held"
	switch lost := seen > d.InForce.Revision(); {
	case lost:
		why = "the journal has lost decisions about holds"
		d.Log.Warn("the datacenter is on hold: "+why, "seen", time.UnixMicro(seen).UTC())
	case held:
		d.Log.Info("the datacenter is on hold: " + why)
	default:
		return nil
	}
	return d.change(ctx, func(tx *journal.Tx, all identity.Holds) (next identity.Hold, err error) {
		if own := all.Of(identity.Scope{}); own != nil {
			next = *own
		}
		next.Held, next.ByOperator = true, true
		next.Decided = workflow.Decided(next.Decided,
			writ.Decision{Decision: identity.DecisionHold, Reason: why, Time: tx.Now})
		return next, nil
	})
}

// change stores a new decision about one scope. The function `change` receives the decisions in the journal and returns
// the new decision. Steps that are committed later see the new decision. The error is RECORD_FORGED if the decisions in
// the journal are older than the decisions that this supervisor has written.
func (d *Holds) change(
	ctx context.Context, change func(tx *journal.Tx, all identity.Holds) (identity.Hold, error),
) error {
	return d.Journal.Write(failpoint.At(ctx, failpoint.HoldDecided), func(tx *journal.Tx) error {
		all, revision, err := tx.Holds()
		if err == nil && revision < d.InForce.Revision() {
			err = writ.Errorf(writ.CodeRecordForged,
				"the journal has an earlier record of the holds than this supervisor has written").
				WithHint("find the program that changed the database of the journal, then restore the journal from a backup")
		}
		if err != nil {
			return err
		}
		next, err := change(tx, all)
		if err != nil {
			return err
		}
		next.Revision = max(revision+1, tx.Now.UnixMicro()) // a restored journal never reuses a revision
		all = slices.DeleteFunc(slices.Clone(all),
			func(h identity.Hold) bool { return h.Scope == next.Scope || hold.IsForgotten(all, h, tx.Now) })
		if err := hold.CheckRoom(all, next.Scope); err != nil {
			return err
		}
		all = append(all, next)
		if err := tx.PutHolds(all, next.Revision); err != nil {
			return err
		}
		// Then runs before the next commit, whose steps must see the decision.
		tx.Then(func() { d.InForce.Set(all, next.Revision, d.InForce.Changes()+1) })
		return nil
	})
}

// Decide carries out a signed statement that holds or releases a scope. It returns an error if the signer did not
// see the newest decision about the scope.
func (d *Holds) Decide(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	scope := identity.ScopeOf(v.Statement)
	if err := d.checkScope(v, scope); err != nil {
		return link.StatementAnswer{}, err
	}
	decide := d.hold
	if v.Statement.Decision == identity.DecisionRelease {
		decide = d.release
	}
	answer := link.StatementAnswer{Subject: v.Statement.Subject}
	err := d.change(ctx, func(tx *journal.Tx, all identity.Holds) (next identity.Hold, err error) {
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
		next.Decided = workflow.Decided(next.Decided, recordOf(v, tx.Now))
		return next, d.Answers.Record(tx, v, &answer)
	})
	return answer, err
}

// checkScope returns an error if the statement is about another datacenter or an unknown operation.
func (d *Holds) checkScope(v *identity.VerifiedStatement, scope identity.Scope) error {
	st := v.Statement
	switch {
	case st.Kind() == "datacenter" && (st.ID() != string(d.Datacenter) || st.Seen.Name != st.DatacenterName):
		return writ.Errorf(writ.CodeConflict, "the decision is about the datacenter %s, and this datacenter is %s", st.Seen.Name,
			st.DatacenterName)
	case scope.Operation == "":
		return nil
	}
	if _, known := catalog.Lookup(scope.Operation); known || catalog.Of(scope.Operation) != nil {
		return nil
	}
	return writ.Errorf(writ.CodeNotFound, "unknown operation %q", scope.Operation).
		WithHint("name an operation such as machine.create, or a module such as machine; docs/operations.md lists them")
}

// hold puts a scope on hold. It succeeds if the scope is on hold already: the new decision is recorded, and the signer
// of a release must have seen it.
func (d *Holds) hold(v *identity.VerifiedStatement, _ identity.Holds, h *identity.Hold) (done string, err error) {
	byOperator := v.Allows(identity.ActionScheduleNodes, d.Now()) == nil
	h.ByOperator = byOperator || h.Held && h.ByOperator
	h.Held = true
	return h.Text() + " is on hold: no job of it is sent until it is released", nil
}

// release ends the scope's own hold and exempts the scope from wider holds, which stay in force for the rest of their
// scopes. Only an operator may release a hold by an operator.
func (d *Holds) release(
	v *identity.VerifiedStatement, all identity.Holds, h *identity.Hold,
) (done string, err error) {
	over := all.Over(h.Scope)
	if len(over) == 0 {
		return "", writ.Errorf(writ.CodeConflict, "%s is not on hold", h.Text()).WithHint("`writ hold list` shows the holds")
	}
	var ended []string
	for _, o := range over {
		if !o.ByOperator {
			continue
		}
		if err := v.Allows(identity.ActionScheduleNodes, d.Now()); err != nil {
			return "", writ.Errorf(writ.CodeRoleMissing, "%s; only an operator of the datacenter can release that", hold.Text(o)).
				WithHint("the release requires the role operator or admin in all projects")
		}
	}
	for _, o := range over {
		has := "has"
		if o.Scope == h.Scope { // the scope's own hold ends; wider holds continue for other work
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

// List returns the current decisions: holds and releases.
func (d *Holds) List() []link.Hold {
	all := d.InForce.All()
	list := make([]link.Hold, len(all))
	for i, h := range all {
		list[i] = link.Hold{
			Project: h.Project, ProjectName: h.ProjectName, Deployment: h.Deployment, Operation: h.Operation, Held: h.Held,
			Exempt: all.Exempts(h.Scope), Revision: h.Revision, ByOperator: h.ByOperator, Decided: h.Decided,
		}
	}
	return list
}
