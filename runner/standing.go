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

// standingEvery is how often a node asks whether it is still a member, where its queue refuses nodes that were removed: that refusal can be lost.
// Without one it asks every askEvery.
const standingEvery = time.Minute

// rejected is why a node that its datacenter does not have any more ends.
func (m *Member) rejected() *writ.Error {
	return writ.Errorf(writ.CodeNodeRejected, "the datacenter has %s the node %s", m.Admission(), m.Name()).
		WithHint("to join anew, start with an empty data directory and a token of `writ token create`")
}

// learnStanding asks the supervisor what the node is, and keeps it if that is that it was removed. Only the supervisor's signature over this
// question counts, so that nobody in between can end a node.
func (m *Member) learnStanding(ctx context.Context, api nodes.Backend) error {
	nonce := make([]byte, identity.NonceSize)
	_, _ = rand.Read(nonce) // never fails
	signed, err := api.Standing(ctx, m.Node(), nonce)
	if err != nil {
		return fmt.Errorf("ask what the node is: %w", err)
	}
	opened, _, err := envelope.Open[nodes.Membership](envelope.Standing, signed, m.supervisorKey)
	if err != nil {
		return fmt.Errorf("verify what the node is: %w", err)
	}
	member, err := m.answers(opened, nonce)
	if err != nil {
		return fmt.Errorf("verify what the node is: %w", err)
	}
	if member.Node != m.Node() || member.Datacenter != m.Datacenter() {
		return writ.Errorf(writ.CodeWrongDatacenter, "the supervisor answered for the node %s of datacenter %s", member.Node, member.Datacenter)
	}
	if !left(member.Admission) {
		return nil
	}
	return m.leave(member.Admission)
}

// left reports whether a node that is so is a member no more, for good.
func left(a writ.Admission) bool { return a == writ.AdmissionRemoved || a == writ.AdmissionRejected }

// leave keeps that the datacenter does not have the node any more. It returns the error with which a runner ends.
func (m *Member) leave(a writ.Admission) error {
	if err := m.change(func(r *record) { r.Admission = a }); err != nil {
		return err
	}
	m.leaving.Do(func() { close(m.gone) })
	return m.rejected()
}

// watchStanding returns why the node ends once its supervisor has signed that it was removed, nil when ctx ends. It asks at once, from time to
// time, and when something says so that proves nothing by itself: an answer without a signature, or the queue that refuses the node.
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
			_ = sleep.For(ctx, retryAfter) // whoever sends nonsense must not make the node ask all the time
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// standingFor is how long a node that was started looks after nothing because it does not know whether it is still a member.
const standingFor = 10 * time.Second

// awaitStanding returns when the node knows what it is, or has waited long enough for that: what it had may run on another node by now, so it
// starts nothing that does not run, as after its host was started, before it has asked. A supervisor that is away keeps nothing from running.
func (n *incarnation) awaitStanding(ctx context.Context) {
	timer := time.NewTimer(standingFor)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-n.standing:
	}
}

// askAgain has the node ask whether it is still a member.
func (m *Member) askAgain() {
	select {
	case m.recheck <- struct{}{}:
	default:
	}
}
