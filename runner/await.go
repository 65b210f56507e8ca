package runner

import (
	"context"
	"time"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

const (
	// lookForMore is the interval at which a waiting job polls the log for new lines. lookAtState is the interval at
	// which it polls the state of the resource.
	lookForMore = 250 * time.Millisecond
	lookAtState = 2 * time.Second
	// waitingShare is the number of slots per job that may wait for new log lines. At least one job may wait. The limit
	// exists because a waiting job counts toward the jobs that the node takes from its queue (inHandPerSlot).
	waitingShare = 4
)

// waits returns how long a job waits for new log lines before the driver reads the log, and the position after which
// lines are new.
func (w *work) waits() (time.Duration, string) {
	part, ok := w.args.(*catalog.LogPart)
	if !ok {
		return 0, ""
	}
	return time.Duration(part.WaitSeconds) * time.Second, part.After
}

// await blocks a job that waits for new lines of a log. It returns nil when the log has new lines, when the resource
// changes its state or disappears, or when the time is over. It also returns nil after an error of the driver. The
// driver then reads the log. If ctx ends first, await returns its cause. The job holds no lock of the resource while it
// waits, so it blocks no other job.
func (j *jobs) await(ctx context.Context, w *work) error {
	patience, after := w.waits()
	driver, ok := w.driver.(sal.Logging)
	if patience == 0 || !ok {
		return nil
	}
	if most := int32(max(j.slots/waitingShare, 1)); j.waiting.Add(1) > most {
		j.waiting.Add(-1)
		return writ.Errorf(writ.CodeResourceBusy, "%d jobs wait for logs on this node, which is the limit", most).
			WithHint("follow fewer logs at a time, or give the node more slots (writ runner --slots)")
	}
	defer j.waiting.Add(-1)
	over := time.NewTimer(patience)
	defer over.Stop()
	tick := time.NewTicker(lookForMore)
	defer tick.Stop()
	did := ""
	for round := 0; ; round++ {
		var done bool
		var err error
		if round%int(lookAtState/lookForMore) == 0 {
			before := did
			if did, err = j.currentState(ctx, w); err != nil || did == "" || before != "" && did != before {
				return context.Cause(ctx)
			}
		}
		done, err = asked(ctx, &j.keeper.calls, "look for more of the log for "+w.job.JobKey.String(), observeFor,
			func(ctx context.Context) (bool, error) {
				return driver.Written(ctx, w.resource(), after)
			})
		if done || err != nil {
			return context.Cause(ctx)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over.C:
			return nil
		case <-tick.C:
		}
	}
}

// currentState returns the state of a job's resource. It is "" if the resource does not exist or has another UID.
func (j *jobs) currentState(ctx context.Context, w *work) (string, error) {
	now, err := asked(ctx, &j.keeper.calls, "look at the state for "+w.job.JobKey.String(), observeFor,
		func(ctx context.Context) (sal.Observation, error) {
			return w.driver.Observe(ctx, w.resource())
		})
	if err != nil || !now.Exists || now.UID != w.job.UID {
		return "", err
	}
	return now.State, nil
}
