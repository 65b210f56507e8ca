package delivery

import (
	"context"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/supervisor/link"
)

// Forward verifies a signed statement, sends it to its datacenter and returns the answer. If the datacenter is not
// connected, Forward returns an error, and the client may retry until the statement expires.
func (s *Service) Forward(ctx context.Context, signed []byte, remote string) (link.StatementAnswer, error) {
	log := s.Log.With("remote", remote)
	statement, err := s.checkStatement(ctx, signed)
	if err != nil {
		s.Refusals.Record(ctx, log, "statement", err)
		return link.StatementAnswer{}, err
	}
	log = log.With("subject", statement.Subject, "decision", statement.Decision, "signer", statement.Signer, "dc",
		statement.Datacenter)
	if err := s.awaitStatement(ctx, statement.Signer); err != nil {
		s.Refusals.Record(ctx, log, "statement", err)
		return link.StatementAnswer{}, err
	}
	var answer link.StatementAnswer
	err = s.Links.Request(ctx, statement.Datacenter, link.VerbStatement, link.Statement{Signed: signed}, &answer)
	if err != nil {
		s.Refusals.Record(ctx, log, "statement", err)
		return link.StatementAnswer{}, err
	}
	s.statements.Inc()
	log.InfoContext(ctx, "statement carried out", "done", answer.Done)
	return answer, nil
}

// awaitStatement limits the rate of statements of a person. Statements do not use the rate of a project: a project with
// too many submissions must not delay the cancel of its runs.
func (s *Service) awaitStatement(ctx context.Context, signer string) error {
	again, err := s.Signers.Wait(ctx, signer, 1, submitWithin)
	if err == nil && again > 0 {
		err = writ.Errorf(writ.CodeRateLimited, "%s signs more than %g statements a second", signer, s.Signers.PerSecond).
			WithHint("try again in %s, or ask an operator to start the coordinator with a higher --project-rate",
				again.Round(time.Second)+time.Second)
	}
	return err
}

func (s *Service) checkStatement(ctx context.Context, signed []byte) (*identity.Statement, error) {
	if s.SkipEarlyCheck {
		text, _, err := sshsig.Split(signed)
		if err != nil {
			return nil, err
		}
		return identity.ParseStatement(text)
	}
	verifier, err := s.Rosters.Verifier(ctx)
	if err != nil {
		return nil, err
	}
	v, err := verifier.Statement(signed)
	if err != nil {
		return nil, err
	}
	return v.Statement, nil
}
