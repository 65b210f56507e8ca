package collect

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"writ/supervisor/fleet"
)

// A round without a lease would make the silence of nodes count whose messages another supervisor receives.
func TestSupervisorWithoutLeaseReceivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Bool
		c := New(Site{Fleet: &fleet.Fleet{Members: new(fleet.Members)}, Held: held.Load}, nil, Receivers{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Minute)
		if c.Rounds() != 0 {
			t.Errorf("%d rounds without a lease", c.Rounds())
		}
		held.Store(true)
		time.Sleep(2 * receiveWait)
		if c.Rounds() == 0 {
			t.Error("no round with a lease")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
