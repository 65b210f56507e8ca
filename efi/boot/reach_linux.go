package boot

import (
	"context"
	"time"

	"writ/efi/boot/reach"
	"writ/efi/progress"
)

// Delays before the first and between further diagnoses. An error of the runner triggers one at once.
const (
	silentFor = 3 * time.Second
	lookAgain = 30 * time.Second
)

// explain reports why the runner does not reach its datacenter, until ctx ends.
func (n *nodeStage) explain(ctx context.Context) {
	p := reach.New("/etc/resolv.conf")
	for next := time.After(silentFor); ; {
		select {
		case <-n.failing:
		case <-next:
		case <-ctx.Done():
			return
		}
		if next = nil; n.status.fine() {
			continue
		}
		err := p.Servers(ctx, n.config.Supervisors, n.config.Redis)
		if ctx.Err() != nil {
			return
		}
		n.unreachable(err)
		next = time.After(lookAgain)
	}
}

// unreachable reports what is unreachable, unless that is already known. A nil error clears the problem.
func (n *nodeStage) unreachable(err error) {
	r := progress.Report{Stage: progress.StageRunner}
	if err != nil {
		r = progress.Failure(progress.StageRunner, err)
	}
	if !n.status.besides(r) || err == nil {
		return
	}
	for _, one := range progress.Flatten(err) {
		n.showFailure("reach", one)
	}
	known := n.known()
	r.Text, r.Next = known.Text, known.Next
	n.report(r)
}
