package runner

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"writ/internal/sleep"
	"writ/internal/wake"
	"writ/runner/member"
	"writ/supervisor/nodes"
)

// refreshEvery is the interval at which a node fetches newer rosters without an announcement, because an announcement
// may be lost with the queue.
const refreshEvery = 10 * time.Minute

// rosterWatch keeps a member's rosters up to date.
type rosterWatch struct {
	member *member.Member
	api    nodes.Backend
	sem    chan struct{} // holds one token: one refresh at a time
	wake   wake.Signal   // requests a refresh
	wanted atomic.Int64  // highest announced version
}

func newRosterWatch(m *member.Member, api nodes.Backend) *rosterWatch {
	return &rosterWatch{member: m, api: api, sem: make(chan struct{}, 1), wake: wake.New()}
}

// want requests roster version; 0 means any newer version.
func (w *rosterWatch) want(version int64) {
	raise(&w.wanted, version)
	if version != 0 && int64(w.member.Roster().Version) >= version {
		return
	}
	w.wake.Raise()
}

// refresh fetches, verifies and stores the rosters that are newer than the member's newest.
func (w *rosterWatch) refresh(ctx context.Context) error {
	select {
	case w.sem <- struct{}{}:
		defer func() { <-w.sem }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return member.Refresh(ctx, w.member, w.api)
}

// follow refreshes at start, when a newer roster is announced or a signer is unknown, and every refreshEvery.
func (w *rosterWatch) follow(ctx context.Context, log *slog.Logger) {
	failing := false
	for {
		before := w.member.Roster().Version
		err := w.refresh(ctx)
		version := w.member.Roster().Version
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			log.WarnContext(ctx, "fetch rosters; trying again", "roster", version, "err", err)
		case err == nil && version > before:
			log.InfoContext(ctx, "roster adopted", "roster", version)
		}
		failing = err != nil
		pause, wake := refreshEvery, w.wake
		if failing || w.wanted.Load() > int64(version) {
			pause, wake = member.AskEvery, nil
		} else if sleep.For(ctx, retryAfter) != nil { // garbage from an attacker must not cause constant requests
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-wake:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}
