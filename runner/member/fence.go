package member

import (
	"context"
	"fmt"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/supervisor/nodes"
)

// LearnFence asks the supervisor whether the node must stop its resources, and stores a valid order. The supervisor's
// signature alone does not suffice: a thief of its key could stop every node permanently. The answer must contain the
// signed statement that declares this node lost.
func LearnFence(ctx context.Context, m *Member, api nodes.Backend) error {
	nonce := identity.NewChallenge()
	signed, err := api.Fence(ctx, m.Node(), nonce)
	if err != nil {
		return fmt.Errorf("request the fence order of the node: %w", err)
	}
	opened, _, err := envelope.Open[nodes.Membership](envelope.Fence, signed, m.SupervisorKey)
	if err != nil {
		return fmt.Errorf("verify the fence order of the node: %w", err)
	}
	order, err := checkAnswer(m, opened, nonce)
	if err != nil {
		return fmt.Errorf("verify the fence order of the node: %w", err)
	}
	if order.Node != m.Node() || order.Datacenter != m.Datacenter() || !Left(order.Admission) {
		return writ.Errorf(writ.CodeWrongDatacenter, "the supervisor answered for the node %s of datacenter %s",
			order.Node, order.Datacenter)
	}
	err = verifyLoss(m, order.Lost)
	if writ.CodeOf(err) == writ.CodeRosterTooOld {
		if err = Refresh(ctx, m, api); err == nil {
			err = verifyLoss(m, order.Lost)
		}
	}
	if err != nil {
		return fmt.Errorf("verify the statement that the node is lost: %w", err)
	}
	return m.Change(func(r *Record) { r.FenceOrdered = true })
}

// verifyLoss verifies a statement that declares this node lost. Its signer must have the right to admit nodes.
func verifyLoss(m *Member, signed []byte) error {
	verifier := identity.Verifier{Roster: m.Roster(), Datacenter: m.Datacenter()}
	v, err := verifier.PastStatement(signed)
	if err != nil {
		return err
	}
	s := v.Statement
	if s.Kind() != "node" || s.Decision != identity.DecisionLost || s.ID() != string(m.Node()) ||
		s.Seen.Fingerprint != sshsig.Fingerprint(m.PublicKey()) {
		return writ.Errorf(writ.CodeOperationNotAllowed,
			"the statement does not declare this node lost: it decides %s for the %s with the key %s",
			s.Decision, s.Subject, s.Seen.Fingerprint)
	}
	return nil
}
