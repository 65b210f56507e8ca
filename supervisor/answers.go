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
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/program"
)

// What is answered about a signed text passes through a coordinator, which nobody needs to believe: the supervisor signs what a statement did,
// why a text was refused, which roster is in force, how a run, a node or the join tokens stand, and what is on hold. An answer is signed once, in the transaction that decides, and kept with the record.
//
// A text that was refused stays refused. Otherwise a coordinator could hand a text in when it must be refused, show the proof of that, and have
// the same text accepted later. For the same reason only texts that have an author are answered so: whoever joins somebody's text with a
// signature that does not fit must not get a proof about that text.

// errDecided is the error of refusing a text of which something else is known: it was accepted, or carried out.
var errDecided = errors.New("the text was accepted before")

// refusedBefore is why a text is refused that was refused before. Nothing was decided about it this time.
type refusedBefore struct{ error }

func (r refusedBefore) Unwrap() error { return r.error }

// prove signs an answer.
func (s *Supervisor) prove(tx *journal.Tx, roster *identity.Roster, answer writ.Answer) ([]byte, error) {
	digest, err := roster.Digest()
	if err != nil {
		return nil, fmt.Errorf("sign an answer: %w", err)
	}
	answer.Cluster, answer.Datacenter, answer.Time = s.Pin, s.Datacenter, tx.Now.UnixMilli()
	answer.Roster, answer.RosterDigest = roster.Version, digest
	return envelope.Sign(envelope.Answer, s.Key, answer)
}

// record signs the answer to a statement and keeps both, in the transaction of its effect.
func (s *Supervisor) record(tx *journal.Tx, v *identity.VerifiedStatement, answer *link.StatementAnswer) (err error) {
	answer.Proof, err = s.prove(tx, v.Roster, writ.Answer{Text: v.Digest, Subject: answer.Subject, Done: answer.Done})
	if err != nil {
		return err
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return tx.AddStatement(journal.Text{Digest: v.Digest, Signer: v.Signer, Signed: v.Signed, Expires: v.Statement.Expires}, body)
}

// refuse returns the error with which a text is refused: signed, and kept, if that is a decision about a text that has an author. The same text
// again gets the same error. It is RATE_LIMITED and signed by nobody if the refusal cannot be kept, because the same text may be accepted later. It
// is errDecided if the text was not refused before, but accepted or carried out.
func (s *Supervisor) refuse(ctx context.Context, namespace identity.Namespace, verifier *identity.Verifier, signed []byte, why error) error {
	e := writ.AsError(why)
	if !e.Decided() {
		return why
	}
	author, err := verifier.Author(namespace, signed)
	if err != nil {
		return why
	}
	if len(e.Proof) > 0 { // it was refused before
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
		refused = &writ.Error{Code: e.Code, Message: clip(e.Message, maxText), Hint: clip(e.Hint, maxText)}
		proof, err := s.prove(tx, verifier.Roster, writ.Answer{Text: author.Digest, Subject: author.Subject, Refused: refused})
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
		return writ.Errorf(full.Code, "refused, but not for good (%s: %s): %s", e.Code, e.Message, full.Message).WithHint("%s", full.Hint)
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

// logRefused logs what is refused with a proof: a signer may send as much of that as it likes. What is refused without one, the link logs.
func (s *Supervisor) logRefused(ctx context.Context, author identity.Author, refused *writ.Error) {
	if times, say := s.refusals.Say(author.Signer+" "+string(refused.Code), time.Now()); say {
		s.Log.InfoContext(ctx, "refused", "caller", author.Signer, "subject", author.Subject, "code", refused.Code, "why", refused.Message, "times", times)
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

// refusalOf returns the error with which a text was refused before, nil if it was not.
func refusalOf(tx *journal.Tx, digest writ.Digest) (*writ.Error, error) {
	body, err := tx.Refusal(digest)
	if body == nil || err != nil {
		return nil, err
	}
	refused := new(writ.Error)
	return refused, json.Unmarshal(body, refused)
}

// wasRefused returns the error with which a text was refused before, nil if it was not.
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

// adopted signs which roster is in force here, for a client that gave a nonce.
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
		Cluster: s.Pin, Datacenter: s.Datacenter, Roster: roster.Version, Digest: digest, Nonce: nonce, Time: s.Now().UnixMilli(),
	})
	return link.AdoptedAnswer{Proof: proof}, err
}

// standing signs how a run stands, for a client that gave a nonce.
func (s *Supervisor) standing(ctx context.Context, id writ.RunID, nonce []byte) (link.StandingAnswer, error) {
	if err := checkNonce(nonce); err != nil {
		return link.StandingAnswer{}, err
	}
	run, err := s.row(ctx, id)
	if err != nil {
		return link.StandingAnswer{}, err
	}
	stands := link.RunStanding{
		Cluster: s.Pin, Datacenter: s.Datacenter, Run: id, State: run.State, Resumes: run.Resumes, Nonce: nonce, Time: s.Now().UnixMilli(),
	}
	if run.State.Ended() {
		stands.Summary = writ.DigestOf(run.Summary)
	}
	proof, err := envelope.Sign(envelope.RunStanding, s.Key, stands)
	return link.StandingAnswer{Proof: proof}, err
}

// standingOfNode signs how a node stands that was decided about, for a client that gave a nonce.
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
		return link.StandingAnswer{}, writ.Errorf(writ.CodeNotFound, "there is no node %s", id).WithHint("`writ node list` shows them")
	}
	proof, err := envelope.Sign(envelope.NodeStanding, s.Key, link.NodeStanding{
		Cluster: s.Pin, Datacenter: s.Datacenter, Node: id, Name: n.Name, Key: n.Key, Admission: n.Admission, Scheduling: n.Scheduling,
		Revision: n.Decisions, Nonce: nonce, Time: s.Now().UnixMilli(),
	})
	return link.StandingAnswer{Proof: proof}, err
}

// standingOfTokens signs which join tokens there are, for a client that gave a nonce.
func (s *Supervisor) standingOfTokens(ctx context.Context, nonce []byte) (link.StandingAnswer, error) {
	if err := checkNonce(nonce); err != nil {
		return link.StandingAnswer{}, err
	}
	tokens, err := s.listTokens(ctx)
	if err != nil {
		return link.StandingAnswer{}, err
	}
	stands := link.TokenStanding{Cluster: s.Pin, Datacenter: s.Datacenter, Tokens: []link.StandingToken{}, Nonce: nonce, Time: s.Now().UnixMilli()}
	for _, t := range tokens {
		stands.Tokens = append(stands.Tokens, link.StandingToken{
			ID: t.ID, CreatedBy: t.CreatedBy, Expires: t.Expires.UnixMilli(), Uses: t.Uses, Nodes: append([]string{}, t.Nodes...),
		})
	}
	proof, err := envelope.Sign(envelope.TokenStanding, s.Key, stands)
	return link.StandingAnswer{Proof: proof}, err
}

// standingOfHolds signs what is on hold, for a client that gave a nonce. Who may see the projects that are asked for, the coordinator knows.
func (s *Supervisor) standingOfHolds(p link.StandingOfHolds) (link.StandingAnswer, error) {
	if err := checkNonce(p.Nonce); err != nil {
		return link.StandingAnswer{}, err
	}
	holds := s.listHolds()
	if !slices.Contains(p.Projects, identity.AllProjects) {
		holds = slices.DeleteFunc(holds, func(h link.Hold) bool { return h.Project != "" && !slices.Contains(p.Projects, h.Project) })
	}
	proof, err := envelope.Sign(envelope.HoldStanding, s.Key, link.HoldStanding{
		Cluster: s.Pin, Datacenter: s.Datacenter, Projects: p.Projects, Holds: holds, Nonce: p.Nonce, Time: s.Now().UnixMilli(),
	})
	return link.StandingAnswer{Proof: proof}, err
}

// checkNonce refuses a nonce that is none of a client.
func checkNonce(nonce []byte) error {
	if len(nonce) != writ.ClientNonce {
		return writ.Errorf(writ.CodeBadRequest, "nonce: it has %d bytes, not %d", len(nonce), writ.ClientNonce)
	}
	return nil
}
