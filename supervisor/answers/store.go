// Package answers signs the answers of a supervisor, so that clients do not have to trust the coordinator that relays
// them. A Store signs the answer to each text once: the effect of a statement, or the refusal of a text. The
// transaction that decides about the text also stores the signed answer. Standings signs the present state of runs,
// nodes, tokens, holds and the roster for one request. The package does not decide: callers verify texts and carry them
// out.
//
// A refused text stays refused. Otherwise a coordinator could submit a text while it must be refused, show the signed
// refusal, and have the same text accepted later. A refusal is signed only if the author of the text is verified.
// Otherwise a person could attach an invalid signature to the text of another signer, and get a signed refusal of that
// text.
package answers

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/program"
)

// ErrDecided reports that a text cannot be refused because it was accepted or carried out before.
var ErrDecided = errors.New("the text was accepted before")

// RefusedBefore is the error of a text that was refused before: this request made no new decision.
type RefusedBefore struct {
	Refusal error // the stored refusal
}

// Error returns the message of the refusal.
func (r RefusedBefore) Error() string { return r.Refusal.Error() }

// Unwrap returns the refusal.
func (r RefusedBefore) Unwrap() error { return r.Refusal }

// Config holds the dependencies of a Store. All fields are required.
type Config struct {
	Journal    *journal.Journal
	Key        ed25519.PrivateKey
	Cluster    writ.ClusterID
	Datacenter writ.DatacenterID
	Refusals   *limit.Lines // rate limit of logged refusals, by signer and code
	Log        *slog.Logger
}

// Store signs and stores the answers to signed texts. Create it with New.
type Store struct {
	Config
	refused refusedTexts
}

// New returns a store.
func New(config Config) *Store {
	return &Store{Config: config, refused: refusedTexts{texts: make(map[program.ShortDigest]bool)}}
}

// Record signs the answer to a statement and stores both, in the transaction of the statement's effect.
func (s *Store) Record(tx *journal.Tx, v *identity.VerifiedStatement, answer *link.StatementAnswer) error {
	text, body, err := s.signed(tx, v, answer, nil)
	if err != nil {
		return err
	}
	return tx.AddStatement(text, body)
}

// Replace signs the final answer to a statement about several runs, with the outcome of each run. It replaces the first
// answer, which reported only that work on the statement had started.
func (s *Store) Replace(
	tx *journal.Tx, v *identity.VerifiedStatement, answer *link.StatementAnswer, runs map[writ.RunID]*writ.Error,
) error {
	text, body, err := s.signed(tx, v, answer, runs)
	if err != nil {
		return err
	}
	return tx.ReplaceAnswer(text, body)
}

// signed sets the proof of an answer and returns the statement and the encoded answer as the journal stores them.
func (s *Store) signed(
	tx *journal.Tx, v *identity.VerifiedStatement, answer *link.StatementAnswer, runs map[writ.RunID]*writ.Error,
) (text journal.Text, body []byte, err error) {
	answer.Proof, err = s.prove(tx, v.Roster,
		writ.Answer{Text: v.Digest, Subject: answer.Subject, Done: answer.Done, Runs: runs})
	if err != nil {
		return text, nil, err
	}
	body, err = json.Marshal(answer)
	return journal.Text{Digest: v.Digest, Signer: v.Signer, Signed: v.Signed, Expires: v.Statement.Expires}, body, err
}

// prove completes answer with cluster, datacenter, time and roster, and signs it.
func (s *Store) prove(tx *journal.Tx, roster *identity.Roster, answer writ.Answer) ([]byte, error) {
	digest, err := roster.Digest()
	if err != nil {
		return nil, fmt.Errorf("sign an answer: %w", err)
	}
	answer.Cluster, answer.Datacenter, answer.Time = s.Cluster, s.Datacenter, tx.Now.UnixMilli()
	answer.Roster, answer.RosterDigest = roster.Version, digest
	return envelope.Sign(envelope.Answer, s.Key, answer)
}

// Answer loads the answer to a statement. It returns nil for a statement that was not carried out. For a refused
// statement, the error is the refusal.
func (s *Store) Answer(ctx context.Context, statement writ.Digest) (*link.StatementAnswer, error) {
	var body []byte
	var refused *writ.Error
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		if body, err = tx.StatementAnswer(statement); body == nil && err == nil {
			refused, err = refusalOf(tx, statement)
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

// Refuse returns the error for a refused text. If `why` is a decision (see writ.Error.Decided) and the author of the
// text is verified, Refuse signs and stores the error. The same text then gets the same error again. If the refusal
// cannot be stored because of a rate limit, the error is an unsigned RATE_LIMITED, because the same text may be
// accepted later. If the text was accepted or carried out before, the error is ErrDecided.
func (s *Store) Refuse(
	ctx context.Context, namespace sshsig.Namespace, verifier *identity.Verifier, signed []byte, why error,
) error {
	e := writ.AsError(why)
	if !e.Decided() {
		return why
	}
	author, err := verifier.Author(namespace, signed)
	if err != nil {
		return why
	}
	if len(e.Proof) > 0 { // refused before
		s.logRefused(ctx, author, e)
		return RefusedBefore{why}
	}
	var refused *writ.Error
	known := false
	err = s.Journal.Write(failpoint.At(ctx, failpoint.RefusalKept), func(tx *journal.Tx) (err error) {
		refused, err = refusalOf(tx, author.Digest)
		if known = refused != nil; known || err != nil {
			return err
		}
		switch decided, err := isDecided(tx, namespace, author.Digest); {
		case err != nil:
			return err
		case decided:
			return ErrDecided
		}
		refused, err = s.addRefusal(tx, verifier.Roster, author, e)
		return err
	})
	if full := writ.AsError(err); err != nil && full.Code == writ.CodeRateLimited {
		return writ.Errorf(full.Code, "refused for now (%s: %s): %s", e.Code, e.Message, full.Message).
			WithHint("%s", full.Hint)
	}
	if err != nil {
		return err
	}
	s.logRefused(ctx, author, refused)
	s.refused.put(program.SignedDigestOf(author.Digest, signed))
	if known {
		return RefusedBefore{refused}
	}
	return refused
}

// addRefusal signs a refusal and stores it. The returned error has the proof.
func (s *Store) addRefusal(
	tx *journal.Tx, roster *identity.Roster, author identity.Author, why *writ.Error,
) (*writ.Error, error) {
	refused := bound.Error(why)
	proof, err := s.prove(tx, roster, writ.Answer{Text: author.Digest, Subject: author.Subject, Refused: refused})
	if err != nil {
		return nil, err
	}
	refused.Proof = proof
	body, err := json.Marshal(refused)
	if err != nil {
		return nil, err
	}
	text := journal.Text{Digest: author.Digest, Signer: author.Signer, Expires: author.Expires}
	return refused, tx.AddRefusal(text, body)
}

// logRefused logs signed refusals at a limited rate, because a signer may cause any number of refusals. Unsigned
// refusals are logged by the link.
func (s *Store) logRefused(ctx context.Context, author identity.Author, refused *writ.Error) {
	if times, say := s.Refusals.Say(author.Signer+" "+string(refused.Code), time.Now()); say {
		s.Log.InfoContext(ctx, "refused", "caller", author.Signer, "subject", author.Subject, "code", refused.Code,
			"why", refused.Message, "times", times)
	}
}

// isDecided reports whether a statement was carried out, or a submission accepted.
func isDecided(tx *journal.Tx, namespace sshsig.Namespace, digest writ.Digest) (bool, error) {
	if namespace == sshsig.ScriptNamespace {
		run, err := tx.Run(writ.RunIDOf(digest))
		return run != nil, err
	}
	answer, err := tx.StatementAnswer(digest)
	return answer != nil, err
}

// SignedBy formats the name of a signer for the log, with the certificate if the signer used one.
func SignedBy(name string, c *identity.Certificate) string {
	if c == nil {
		return name
	}
	return name + ", by " + c.String()
}
