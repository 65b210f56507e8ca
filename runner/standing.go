package runner

import (
	"context"
	"sync"
	"time"

	"writ"
	"writ/internal/sleep"
	"writ/runner/member"
)

// standingEvery is the interval at which a node checks its membership if its queue refuses removed nodes. The check is
// needed because a refusal may be lost. If the queue has no accounts, the interval is member.AskEvery.
const standingEvery = time.Minute

// standing checks the membership of the node with the supervisor.
type standing struct {
	*base
	known chan struct{} // closed once the supervisor has answered for the first time
	once  sync.Once
}

// watch returns an error once the supervisor has signed that the node was removed, and nil when ctx ends. It
// checks at start, periodically, and after unproven hints: an unsigned answer, or a refusal by the queue.
func (n *standing) watch(ctx context.Context) error {
	for {
		err := member.LearnStanding(ctx, n.member, n.api)
		if err == nil {
			n.counts.answered.Note(n.now())
			n.once.Do(func() { close(n.known) })
		}
		if member.Left(n.member.Admission()) {
			return n.member.Rejected()
		}
		pause := standingEvery
		if n.member.Removal().Open() || err != nil && writ.AsError(err).Retryable() {
			pause = member.AskEvery
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-n.member.Removal().Recheck():
			_ = sleep.For(ctx, retryAfter) // garbage from an attacker must not cause constant requests
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// standingFor limits how long a node waits after its start for the confirmation of its membership, before it maintains
// its resources.
const standingFor = 10 * time.Second

// await returns once the supervisor has confirmed the membership, or after standingFor. While the host was down, the
// node's resources may have been created again on another node. Therefore the node starts no resource before the
// supervisor has answered. If the supervisor is unavailable, the node starts its resources after standingFor.
func (n *standing) await(ctx context.Context) {
	timer := time.NewTimer(standingFor)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-n.known:
	}
}
