package supervisord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"writ"
	"writ/internal/sleep"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// lookForLease is the interval of a standby's attempts to serve the datacenter.
const lookForLease = time.Second

// standBy serves the datacenter whenever no other supervisor does, until ctx ends. It retries while a shared journal is
// unavailable, because PostgreSQL recovers by itself. serve calls `ready` when it serves, and restores the standby
// handler when it ends.
func (s *Supervisor) standBy(
	ctx context.Context, log *slog.Logger, api *exchangeable, ready func(), serve func(ready func()) error,
) error {
	last := ""
	for {
		served := false
		err := serve(func() { served = true; ready() })
		said := fmt.Sprint(err)
		news := served || said != last
		last = said
		switch {
		case errors.Is(err, journal.ErrFenced):
			log.WarnContext(ctx, "another supervisor has taken over; this one stands by")
			ready()
		case errors.Is(err, journal.ErrHeld):
			if news {
				log.InfoContext(ctx, "another supervisor serves the datacenter; this one stands by")
				api.set(nodes.Standby(err, log))
			}
			ready()
		case s.Journal != "" && err != nil && writ.AsError(err).Code.IsStoreUnavailable():
			if news {
				log.WarnContext(ctx, "the journal does not answer; trying again", "err", err)
				api.set(nodes.Standby(err, log))
			}
		default:
			return err
		}
		if sleep.For(ctx, lookForLease) != nil {
			return nil
		}
	}
}

// exchangeable is a handler that can be replaced while it serves.
type exchangeable struct{ now atomic.Pointer[http.Handler] }

func (e *exchangeable) set(h http.Handler) { e.now.Store(&h) }

func (e *exchangeable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*e.now.Load()).ServeHTTP(w, r)
}
