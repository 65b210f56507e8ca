// Package peer defines the workload that `writ bench` runs on each system: the orders, how they are driven and
// measured, and the protocol with systems in other processes. It must not know any particular system.
package peer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Order is a workload: runs of calls that do no work.
type Order struct {
	Runs     int `json:"runs"`
	InFlight int `json:"in_flight"` // concurrent runs
	Calls    int `json:"calls"`     // per run
	// Whether all calls of a run are independent; otherwise each call follows the result of the previous one.
	AtOnce bool `json:"at_once"`
	// Within limits the duration of the submission phase, so a slow system gets fewer runs. 0 means no limit.
	Within time.Duration `json:"within"`
}

// Took holds the durations of an order.
type Took struct {
	All  time.Duration   `json:"all"`  // from the first submission to the last end
	Runs []time.Duration `json:"runs"` // per submitted run, from its submission until the client knows its end
}

// Drive submits the runs of an order with the given concurrency and measures them. run submits run i and returns when
// it has ended.
func Drive(ctx context.Context, o Order, run func(ctx context.Context, i int) error) (Took, error) {
	took := Took{Runs: make([]time.Duration, o.Runs)}
	var handedIn atomic.Int64
	begun := time.Now()
	next := func() (i int, more bool) {
		if o.Within > 0 && time.Since(begun) > o.Within {
			return 0, false
		}
		i = int(handedIn.Add(1)) - 1
		return i, i < o.Runs
	}
	group, ctx := errgroup.WithContext(ctx)
	for range min(o.InFlight, o.Runs) {
		group.Go(func() error {
			for i, more := next(); more; i, more = next() {
				at := time.Now()
				if err := errors.Join(context.Cause(ctx), run(ctx, i)); err != nil {
					return fmt.Errorf("run %d of %d: %w", i+1, o.Runs, err)
				}
				took.Runs[i] = time.Since(at)
			}
			return nil
		})
	}
	err := group.Wait()
	took.All = time.Since(begun)
	took.Runs = took.Runs[:min(int(handedIn.Load()), o.Runs)]
	return took, err
}
