package rosters

import (
	"context"
	"time"

	"writ/identity"
)

// endsEvery is the interval at which the supervisor checks its roster for approaching expiries.
const endsEvery = time.Hour

// WarnOfEnds logs approaching expiries of the roster and of roles, until ctx ends. A datacenter without a coordinator
// has no other way to report them.
func (k *Keeper) WarnOfEnds(ctx context.Context) error {
	warned := make(identity.Warned)
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	for {
		warned.Log(ctx, k.Log, k.current.Load().Expiries(), k.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
