package supervisor

import (
	"context"
	"errors"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/supervisor/journal"
)

// announceTime limits how long a new supervisor waits for a queue that does not accept its announcements. Nodes also
// learn the epoch from every job and from the answer to every beat. releaseTime limits the release of the lease at the
// end.
const (
	announceTime = 2 * time.Second
	releaseTime  = 3 * time.Second
)

// reign renews the lease until ctx ends. It returns journal.ErrFenced if another supervisor has taken over. While the
// journal is unreachable, no step can commit, and therefore no job is sent.
func (s *Supervisor) reign(ctx context.Context) error {
	if !s.Journal.Shared() {
		return nil
	}
	tick := time.NewTicker(journal.RenewEvery)
	defer tick.Stop()
	for {
		switch err := s.Journal.Renew(ctx); {
		case errors.Is(err, journal.ErrFenced):
			return err
		case err != nil && ctx.Err() == nil:
			s.Log.Warn("renew the lease", "epoch", s.epoch, "err", err)
		case err == nil:
			s.counts.renewed.Note(s.Now())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// announce sends the epoch to every approved node before the first job is sent, so that no node obeys an earlier
// supervisor any more.
func (s *Supervisor) announce(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, announceTime)
	defer stop()
	var all []*journal.Node
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		all, err = tx.Nodes()
		return err
	})
	if err != nil {
		s.Log.Warn("announce the epoch; nodes learn it with their next beat", "epoch", s.epoch, "err", err)
		return
	}
	for _, n := range all {
		if n.Admission == writ.AdmissionApproved {
			s.outbox.Control(failpoint.At(ctx, failpoint.EpochSent),
				writ.Control{Node: n.ID, Roster: s.rosters.Current().Version})
		}
	}
}
