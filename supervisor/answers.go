package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/failpoint"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/program"
)

// Clients do not have to trust the coordinator that relays an answer: the supervisor signs the effect of a statement,
// the refusal of a text, the roster in force, the state of a run or node, the list of join tokens and the list of
// holds. The answer to a text is signed once, in the transaction that decides, and stored with the record.
//
// A refused text stays refused. Otherwise a coordinator could submit a text at a time when it must be refused, show the
// signed refusal, and have the same text accepted later. For the same reason a refusal is signed only for a text with a
// verified author: a person attaching an invalid signature to the text of another signer must not get a signed answer
// about that text.

// errDecided reports that a text cannot be refused because it was accepted or carried out before.
var errDecided = errors.New("the text was accepted before")

// refusedBefore wraps the error of an earlier refusal. This request made no new decision.
type refusedBefore struct{ error }

func (r refusedBefore) Unwrap() error { return r.error }

// prove completes answer with cluster, datacenter, time and roster, and signs it.
func (s *Supervisor) prove(tx *journal.Tx, roster *identity.Roster, answer writ.Answer) ([]byte, error) {
	digest, err := roster.Digest()
	if err != nil {
		return nil, fmt.Errorf("sign an answer: %w", err)
	}
	answer.Cluster, answer.Datacenter, answer.Time = s.Pin, s.Datacenter, tx.Now.UnixMilli()
	answer.Roster, answer.RosterDigest = roster.Version, digest
	return envelope.Sign(envelope.Answer, s.Key, answer)
}

// record signs the answer to a statement and stores both, in the transaction of the statement's effect.
func (s *Supervisor) record(tx *journal.Tx, v *identity.VerifiedStatement, answer *link.StatementAnswer) (err error) {
	answer.Proof, err = s.prove(tx, v.Roster, writ.Answer{Text: v.Digest, Subject: answer.Subject, Done: answer.Done})
	if err != nil {
		return err
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return tx.AddStatement(journal.Text{
		Digest: v.Digest, Signer: v.Signer, Signed: v.Signed, Expires: v.Statement.Expires,
	}, body)
}

// refuse returns the error for a refused text. If why is a decision and the author of the text is verified, the error
// is signed and stored, and the same text gets the same error again. If the refusal cannot be stored because of a rate
// limit, the error is an unsigned RATE_LIMITED, because the same text may be accepted later. If the text was accepted
// or carried out before, the error is errDecided.
func (s *Supervisor) refuse(
	ctx context.Context, namespace identity.Namespace, verifier *identity.Verifier, signed []byte, why error,
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
		return refusedBefore{why}
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
			return errDecided
		}
		refused = bound.Error(e)
		proof, err := s.prove(tx, verifier.Roster,
			writ.Answer{Text: author.Digest, Subject: author.Subject, Refused: refused})
		if err != nil {
			return err
		}
		refused.Proof = proof
		body, err := json.Marshal(refused)
		if err != nil {
			return err
		}
		return tx.AddRefusal(journal.Text{Digest: author.Digest, Signer: author.Signer, Expires: author.Expires}, body)
	})
	if full := writ.AsError(err); err != nil && full.Code == writ.CodeRateLimited {
		return writ.Errorf(full.Code, "refused, but not for good (%s: %s): %s", e.Code, e.Message, full.Message).
			WithHint("%s", full.Hint)
	}
	if err != nil {
		return err
	}
	s.logRefused(ctx, author, refused)
	s.refused.put(program.ShortDigestOf(signed))
	if known {
		return refusedBefore{refused}
	}
	return refused
}

// logRefused logs signed refusals at a limited rate, because a signer may cause any number of them. Unsigned refusals
// are logged by the link.
func (s *Supervisor) logRefused(ctx context.Context, author identity.Author, refused *writ.Error) {
	if times, say := s.refusals.Say(author.Signer+" "+string(refused.Code), time.Now()); say {
		s.Log.InfoContext(ctx, "refused", "caller", author.Signer, "subject", author.Subject, "code", refused.Code,
			"why", refused.Message, "times", times)
	}
}

// isDecided reports whether a statement was carried out, or a submission accepted.
func isDecided(tx *journal.Tx, namespace identity.Namespace, digest writ.Digest) (bool, error) {
	if namespace == identity.ScriptNamespace {
		run, err := tx.Run(writ.RunIDOf(digest))
		return run != nil, err
	}
	answer, err := tx.StatementAnswer(digest)
	return answer != nil, err
}

// refusalOf loads the stored refusal of a text. It returns nil for a text without a refusal.
func refusalOf(tx *journal.Tx, digest writ.Digest) (*writ.Error, error) {
	body, err := tx.Refusal(digest)
	if body == nil || err != nil {
		return nil, err
	}
	refused := new(writ.Error)
	return refused, json.Unmarshal(body, refused)
}

// wasRefused returns the stored refusal of a text. It returns nil for a text without a refusal.
func (s *Supervisor) wasRefused(ctx context.Context, digest writ.Digest) error {
	var refused *writ.Error
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		refused, err = refusalOf(tx, digest)
		return err
	})
	if refused == nil || err != nil {
		return err
	}
	return refused
}

// adopted signs the version and digest of the roster in force, bound to a client's nonce.
func (s *Supervisor) adopted(nonce []byte) (link.AdoptedAnswer, error) {
	if err := checkNonce(nonce); err != nil {
		return link.AdoptedAnswer{}, err
	}
	roster := s.roster.Load()
	digest, err := roster.Digest()
	if err != nil {
		return link.AdoptedAnswer{}, fmt.Errorf("sign which roster is in force: %w", err)
	}
	proof, err := envelope.Sign(envelope.Adoption, s.Key, writ.Adoption{
		Cluster: s.Pin, Datacenter: s.Datacenter, Roster: roster.Version, Digest: digest, Nonce: nonce,
		Time: s.Now().UnixMilli(),
	})
	return link.AdoptedAnswer{Proof: proof}, err
}

// standing signs the state of a run, bound to a client's nonce.
func (s *Supervisor) standing(ctx context.Context, id writ.RunID, nonce []byte) (link.StandingAnswer, error) {
	if err := checkNonce(nonce); err != nil {
		return link.StandingAnswer{}, err
	}
	run, err := s.row(ctx, id)
	if err != nil {
		return link.StandingAnswer{}, err
	}
	stands := link.RunStanding{
		Cluster: s.Pin, Datacenter: s.Datacenter, Run: id, State: run.State, Resumes: run.Resumes, Nonce: nonce,
		Time: s.Now().UnixMilli(),
	}
	if run.State.Ended() {
		stands.Summary = writ.DigestOf(run.Summary)
	}
	proof, err := envelope.Sign(envelope.RunStanding, s.Key, stands)
	return link.StandingAnswer{Proof: proof}, err
}

// standingOfNode signs the state of a node that has a record in the journal, bound to a client's nonce.
func (s *Supervisor) standingOfNode(ctx context.Context, id writ.NodeID, nonce []byte) (link.StandingAnswer, error) {
	if err := checkNonce(nonce); err != nil {
		return link.StandingAnswer{}, err
	}
	var n *journal.Node
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		n, err = tx.Node(id)
		return err
	})
	switch {
	case err != nil:
		return link.StandingAnswer{}, err
	case n == nil:
		return link.StandingAnswer{}, writ.Errorf(writ.CodeNotFound, "there is no node %s", id).
			WithHint("`writ node list` shows them")
	}
	proof, err := envelope.Sign(envelope.NodeStanding, s.Key, link.NodeStanding{
		Cluster: s.Pin, Datacenter: s.Datacenter, Node: id, Name: n.Name, Key: n.Key, Admission: n.Admission,
		Scheduling: n.Scheduling, Revision: n.Decisions, Nonce: nonce, Time: s.Now().UnixMilli(),
	})
	return link.StandingAnswer{Proof: proof}, err
}

// standingOfTokens signs the list of join tokens, bound to a client's nonce.
func (s *Supervisor) standingOfTokens(ctx context.Context, nonce []byte) (link.StandingAnswer, error) {
	if err := checkNonce(nonce); err != nil {
		return link.StandingAnswer{}, err
	}
	tokens, err := s.listTokens(ctx)
	if err != nil {
		return link.StandingAnswer{}, err
	}
	stands := link.TokenStanding{
		Cluster: s.Pin, Datacenter: s.Datacenter, Tokens: []link.StandingToken{}, Nonce: nonce, Time: s.Now().UnixMilli(),
	}
	for _, t := range tokens {
		stands.Tokens = append(stands.Tokens, link.StandingToken{
			ID: t.ID, CreatedBy: t.CreatedBy, Expires: t.Expires.UnixMilli(), Uses: t.Uses,
			Nodes: append([]string{}, t.Nodes...),
		})
	}
	proof, err := envelope.Sign(envelope.TokenStanding, s.Key, stands)
	return link.StandingAnswer{Proof: proof}, err
}

// standingOfHolds signs the holds of the requested projects and all holds without a project, bound to a client's nonce.
// The coordinator checks which projects the client may see.
func (s *Supervisor) standingOfHolds(p link.StandingOfHolds) (link.StandingAnswer, error) {
	if err := checkNonce(p.Nonce); err != nil {
		return link.StandingAnswer{}, err
	}
	holds := s.listHolds()
	if !slices.Contains(p.Projects, identity.AllProjects) {
		holds = slices.DeleteFunc(holds,
			func(h link.Hold) bool { return h.Project != "" && !slices.Contains(p.Projects, h.Project) })
	}
	proof, err := envelope.Sign(envelope.HoldStanding, s.Key, link.HoldStanding{
		Cluster: s.Pin, Datacenter: s.Datacenter, Projects: p.Projects, Holds: holds, Nonce: p.Nonce,
		Time: s.Now().UnixMilli(),
	})
	return link.StandingAnswer{Proof: proof}, err
}

// checkNonce returns an error if nonce does not have the length of a client's nonce.
func checkNonce(nonce []byte) error {
	if len(nonce) != writ.ClientNonce {
		return writ.Errorf(writ.CodeBadRequest, "nonce: it has %d bytes, not %d", len(nonce), writ.ClientNonce)
	}
	return nil
}
