package runner

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/sleep"
	"writ/supervisor/nodes"
)

// standingEvery is the interval at which a node checks its membership if its queue refuses removed nodes; that refusal
// may be lost. If the queue has no accounts, the interval is askEvery.
const standingEvery = time.Minute

// rejected returns the error with which a removed or rejected node exits.
func (m *Member) rejected() *writ.Error {
	return writ.Errorf(writ.CodeNodeRejected, "the datacenter %s the node %s", m.Admission(), m.Name()).
		WithHint("to join again, start with an empty data directory and a token of `writ token create`")
}

// learnStanding asks the supervisor for the node's admission and records a removal. Only the supervisor's signature
// over this nonce counts, so an attacker on the network cannot shut a node down.
func (m *Member) learnStanding(ctx context.Context, api nodes.Backend) error {
	nonce := make([]byte, identity.NonceSize)
	_, _ = rand.Read(nonce) // never fails
	signed, err := api.Standing(ctx, m.Node(), nonce)
	if err != nil {
		return fmt.Errorf("request the standing of the node: %w", err)
	}
	opened, _, err := envelope.Open[nodes.Membership](envelope.Standing, signed, m.supervisorKey)
	if err != nil {
		return fmt.Errorf("verify the standing of the node: %w", err)
	}
	member, err := m.answers(opened, nonce)
	if err != nil {
		return fmt.Errorf("verify the standing of the node: %w", err)
	}
	if member.Node != m.Node() || member.Datacenter != m.Datacenter() {
		return writ.Errorf(writ.CodeWrongDatacenter, "the supervisor answered for the node %s of datacenter %s",
			member.Node, member.Datacenter)
	}
	if !left(member.Admission) {
		return nil
	}
	return m.leave(member.Admission)
}

// left reports whether an admission ends the membership permanently.
func left(a writ.Admission) bool { return a == writ.AdmissionRemoved || a == writ.AdmissionRejected }

// leave records that the node was removed. It returns the error with which the runner exits.
func (m *Member) leave(a writ.Admission) error {
	if err := m.change(func(r *record) { r.Admission = a }); err != nil {
		return err
	}
	m.leaving.Do(func() { close(m.gone) })
	return m.rejected()
}

// watchStanding returns an error once the supervisor has signed that the node was removed, and nil when ctx ends. It
// checks at start, periodically, and after hints that prove nothing by themselves: an unsigned answer, or a refusal by
// the queue.
func (n *incarnation) watchStanding(ctx context.Context) error {
	for {
		err := n.member.learnStanding(ctx, n.api)
		if err == nil {
			n.counts.answered.Note(n.now())
			n.stood.Do(func() { close(n.standing) })
		}
		if left(n.member.Admission()) {
			return n.member.rejected()
		}
		pause := standingEvery
		if n.member.open.Load() || err != nil && writ.AsError(err).Retryable() {
			pause = askEvery
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-n.member.recheck:
			_ = sleep.For(ctx, retryAfter) // an attacker who sends garbage must not cause constant requests
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// standingFor limits how long a started node waits for its standing before it looks after its resources.
const standingFor = 10 * time.Second

// awaitStanding returns once the standing of the node is known, or after standingFor. The node's resources may run on
// another node by now, so after a start of its host the node first asks before it starts any of them. An unavailable
// supervisor only delays that.
func (n *incarnation) awaitStanding(ctx context.Context) {
	timer := time.NewTimer(standingFor)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-n.standing:
	}
}

// askAgain triggers a membership check.
func (m *Member) askAgain() {
	select {
	case m.recheck <- struct{}{}:
	default:
	}
}
