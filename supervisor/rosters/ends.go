package rosters

import (
	"context"
	"time"

	"writ/identity/expiring"
	"writ/internal/sleep"
)

// endsEvery is the interval at which the supervisor checks its roster for approaching expiries.
const endsEvery = time.Hour

// WarnOfEnds logs approaching expiries of the roster and of roles, until ctx ends. A datacenter without a coordinator
// has no other way to report them.
func (k *Keeper) WarnOfEnds(ctx context.Context) error {
	warned := make(expiring.Warned)
	sleep.Every(ctx, endsEvery, func(ctx context.Context) {
		warned.Log(ctx, k.Log, expiring.InRoster(k.current.Load()), k.Now())
	})
	return nil
}
