// Package peer is the workload that `writ bench` compares systems with: what there is to do, how it is handed in, what is measured of it,
// and how a system in a process of its own is asked to do it. It knows no system.
package peer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Order is what there is to do: runs of calls that do nothing.
type Order struct {
	Runs     int  `json:"runs"`
	InFlight int  `json:"in_flight"` // runs at a time
	Calls    int  `json:"calls"`     // of each run
	AtOnce   bool `json:"at_once"`   // no call needs another; otherwise each is made when the one before it has answered
	// Within is how long runs are handed in: a system that is too slow carries out fewer of them. 0 is for as long as it takes.
	Within time.Duration `json:"within"`
}

// Took is how long an order took.
type Took struct {
	All  time.Duration   `json:"all"`  // from the first run that is handed in until the last one has ended
	Runs []time.Duration `json:"runs"` // each that was handed in, from then until its end is known
}

// Drive hands in the runs of an order, as many at a time as it says, and measures. run hands one in and returns when it has ended.
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
