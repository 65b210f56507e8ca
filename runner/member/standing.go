package member

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/wake"
	"writ/supervisor/nodes"
)

// Removal holds the signs and the proof that the supervisor has removed the node.
type Removal struct {
	recheck wake.Signal   // holds a token if unproven signs require a check
	gone    chan struct{} // closed once the supervisor has signed a removal
	leaving sync.Once
	open    atomic.Bool // the queue has no accounts, so it cannot refuse a removed node
}

func newRemoval() *Removal {
	return &Removal{recheck: wake.New(), gone: make(chan struct{})}
}

// Removal returns the signs of a removal of the node.
func (m *Member) Removal() *Removal { return m.removal }

// Recheck returns a channel with a value if the membership should be checked.
func (d *Removal) Recheck() <-chan struct{} { return d.recheck }

// Open reports whether the queue has no accounts, so that it does not refuse a removed node.
func (d *Removal) Open() bool { return d.open.Load() }

// askAgain triggers a membership check.
func (d *Removal) askAgain() {
	d.recheck.Raise()
}

// Rejected returns the exit error of a removed or rejected node.
func (m *Member) Rejected() *writ.Error {
	return writ.Errorf(writ.CodeNodeRejected, "the datacenter %s the node %s", m.Admission(), m.Name()).
		WithHint("to join again, start with an empty data directory and a token of `writ token create`")
}

// LearnStanding asks the supervisor for the node's admission. It records a removal or rejection and then returns
// NODE_REJECTED. It accepts only an answer that the supervisor signed together with the nonce of this request, so an
// attacker on the network cannot shut down a node.
func LearnStanding(ctx context.Context, m *Member, api nodes.Backend) error {
	nonce := identity.NewChallenge()
	signed, err := api.Standing(ctx, m.Node(), nonce)
	if err != nil {
		return fmt.Errorf("request the standing of the node: %w", err)
	}
	opened, _, err := envelope.Open[nodes.Membership](envelope.Standing, signed, m.SupervisorKey)
	if err != nil {
		return fmt.Errorf("verify the standing of the node: %w", err)
	}
	member, err := checkAnswer(m, opened, nonce)
	if err != nil {
		return fmt.Errorf("verify the standing of the node: %w", err)
	}
	if member.Node != m.Node() || member.Datacenter != m.Datacenter() {
		return writ.Errorf(writ.CodeWrongDatacenter, "the supervisor answered for the node %s of datacenter %s",
			member.Node, member.Datacenter)
	}
	if !Left(member.Admission) {
		return nil
	}
	return m.leave(member.Admission)
}

// Left reports whether an admission ends the membership permanently: removed or rejected.
func Left(a writ.Admission) bool { return a == writ.AdmissionRemoved || a == writ.AdmissionRejected }

// leave records that the node was removed or rejected. It returns the exit error of the runner.
func (m *Member) leave(a writ.Admission) error {
	if err := m.Change(func(r *Record) { r.Admission = a }); err != nil {
		return err
	}
	m.removal.leaving.Do(func() { close(m.removal.gone) })
	return m.Rejected()
}
