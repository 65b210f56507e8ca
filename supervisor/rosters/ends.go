package rosters

import (
	"context"
	"time"

	"writ/identity/expiring"
)

// endsEvery is the interval at which the supervisor checks its roster for approaching expiries.
const endsEvery = time.Hour

// WarnOfEnds logs approaching expiries of the roster and of roles, until ctx ends. A datacenter without a coordinator
// has no other way to report them.
func (k *Keeper) WarnOfEnds(ctx context.Context) error {
	warned := make(expiring.Warned)
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	for {
		warned.Log(ctx, k.Log, expiring.InRoster(k.current.Load()), k.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
