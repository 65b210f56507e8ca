// Package decision carries out signed statements: decisions of people about runs, nodes, tokens and holds. Each effect
// is committed together with its signed answer, so a repeated statement gets the same answer and has no second effect.
// Package identity verifies the signatures.
package decision

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/hidden"
	"writ/internal/sqldb"
	"writ/supervisor/answers"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// Handler carries out a verified statement. It stores the returned answer in the transaction of its effect.
type Handler func(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error)

// Decider has each statement verified by package identity, and passes it to the handler of its kind and decision. All
// fields are required.
type Decider struct {
	Verifier func() *identity.Verifier // verifier with the newest roster
	Answers  *answers.Store
	Handlers map[string]Handler // by kind of subject and decision, such as "run cancel"
	Log      *slog.Logger
}

// Decide verifies a signed statement and applies or refuses it. Its answer is signed and stored in the transaction of
// the effect. A repeated statement gets the same answer and has no second effect.
func (d *Decider) Decide(ctx context.Context, signed []byte) (link.StatementAnswer, error) {
	verifier := d.Verifier()
	verified, err := verifier.Statement(signed)
	if err == nil {
		answer, err := d.decide(ctx, verified)
		if err == nil {
			return answer, nil
		}
		return d.refuse(ctx, verifier, signed, verified.Digest, err)
	}
	text, _, unsplit := sshsig.Split(signed)
	if unsplit != nil {
		return link.StatementAnswer{}, err
	}
	return d.refuse(ctx, verifier, signed, writ.DigestOf(text), err)
}

// refuse refuses a statement. If the statement was carried out before, refuse returns its stored answer.
func (d *Decider) refuse(
	ctx context.Context, verifier *identity.Verifier, signed []byte, digest writ.Digest, why error,
) (link.StatementAnswer, error) {
	err := d.Answers.Refuse(ctx, sshsig.StatementNamespace, verifier, signed, why)
	if !errors.Is(err, answers.ErrDecided) {
		return link.StatementAnswer{}, err
	}
	answer, err := d.Answers.Answer(ctx, digest)
	return orZero(answer), err
}

// decide carries out a verified statement, unless it was carried out or refused before.
func (d *Decider) decide(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	if answer, err := d.Answers.Answer(ctx, v.Digest); answer != nil && !answer.Begun || err != nil {
		return orZero(answer), err
	}
	statement := v.Statement
	var answer link.StatementAnswer
	var err error
	if handle := d.Handlers[statement.Kind()+" "+statement.Decision]; handle != nil {
		answer, err = handle(ctx, v)
	} else {
		err = writ.Errorf(writ.CodeVerbUnsupported, "this supervisor cannot %s a %s yet", statement.Decision,
			statement.Kind())
	}
	if sqldb.IsDuplicate(err) || errors.Is(err, journal.ErrRefused) || writ.CodeOf(err) == writ.CodeConflict {
		if known, err := d.Answers.Answer(ctx, v.Digest); known != nil || err != nil {
			// a concurrent copy of the statement was faster
			return orZero(known), err
		}
	}
	if err == nil {
		d.Log.Info("statement carried out",
			"caller", answers.SignedBy(v.Signer, v.Certificate), "subject", statement.Subject,
			"decision", statement.Decision, "reason", hidden.Escape(statement.Reason))
	}
	return answer, err
}

// orZero returns a as the signer of a statement receives it: without Begun, which is only for the journal. For nil, it
// returns the zero value.
func orZero(a *link.StatementAnswer) link.StatementAnswer {
	if a == nil {
		return link.StatementAnswer{}
	}
	shown := *a
	shown.Begun = false
	return shown
}

// recordOf returns the record of a decision, which the journal keeps with the subject of the decision.
func recordOf(v *identity.VerifiedStatement, now time.Time) writ.Decision {
	return writ.Decision{Decision: v.Statement.Decision, Signer: v.Signer, Reason: v.Statement.Reason, Time: now}
}
