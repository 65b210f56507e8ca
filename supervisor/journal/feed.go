package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
)

// Feed is the event stream of the journal for one coordinator: normally the shared stream, under the journal's ID. A
// coordinator whose store does not match the journal receives a stream from the beginning, under an ID of its own. So
// the state or the claims of one coordinator do not interrupt the links of other coordinators. It implements
// link.EventSource.
type Feed struct {
	j           *Journal
	coordinator string
	begun       []time.Time // when this coordinator caused new generations
}

// Limits of the new generations that one coordinator may cause. Each generation adds events with the whole state, which
// every coordinator receives. Without the limits, a malicious coordinator could cause a generation with each link.
const (
	maxGenerations    = 3
	generationsWithin = time.Hour
)

// feedPrefix is the prefix of the names under which meta holds the generations of single coordinators. The rest of such
// a name is the coordinator's URL.
const feedPrefix = "feed/"

// Feed returns the feed of a coordinator, by its URL. Its Agree must be called by one goroutine only.
func (j *Journal) Feed(coordinator string) *Feed { return &Feed{j: j, coordinator: coordinator} }

// ID returns the ID of the generation that the coordinator receives.
func (f *Feed) ID() string { return f.j.of(f.coordinator) }

// Agree implements link.EventSource.
func (f *Feed) Agree(ctx context.Context, id string, seq int64, at time.Time) error {
	stands, err := Query(ctx, f.j, func(tx *Tx) (standing, error) { return tx.compare(seq, at) })
	switch {
	case err != nil:
		return fmt.Errorf("compare generations: %w", f.dropUnreadable(ctx, err))
	case id != f.ID():
		return errors.New("the journal began a new generation since the hello")
	case stands == agrees:
		return nil
	}
	if !f.allow(time.Now()) {
		return fmt.Errorf("the coordinator has event %d of journal %s, which this journal does not continue; "+
			"no events are sent for now: the limit is %d new generations within %s", seq, id, maxGenerations, generationsWithin)
	}
	if err := f.begin(ctx); err != nil {
		return fmt.Errorf("start a new generation: %w", err)
	}
	if stands == older && at.Before(f.j.ReconcilesUntil()) {
		return fmt.Errorf("the coordinator has event %d of journal %s, which is newer than the backup of this journal; the whole state is sent again, as journal %s",
			seq, id, f.ID())
	}
	if stands == older {
		return fmt.Errorf("the coordinator claims event %d of journal %s, which this journal does not have. "+
			"If the journal was restored by other means than `writ restore FILE`, stop the supervisor and run `writ restore --mark`: "+
			"otherwise older runs are placed again. The whole state is sent again, as journal %s", seq, id, f.ID())
	}
	return fmt.Errorf("the coordinator has event %d of journal %s, which this journal does not continue: "+
		"one of the two was restored from a backup; the whole state is sent again, as journal %s", seq, id, f.ID())
}

// allow reports whether another generation may begin now, and counts it.
func (f *Feed) allow(now time.Time) bool {
	for len(f.begun) > 0 && now.Sub(f.begun[0]) > generationsWithin {
		f.begun = f.begun[1:]
	}
	if len(f.begun) >= maxGenerations {
		return false
	}
	f.begun = append(f.begun, now)
	return true
}

// begin starts a generation for this coordinator only. It does not mark the journal as restored: only the datacenter
// itself may do that.
func (f *Feed) begin(ctx context.Context) error {
	own := writ.NewUUID()
	err := f.j.Write(failpoint.At(ctx, failpoint.GenerationBegun), func(tx *Tx) error {
		if err := tx.setMeta(feedPrefix+f.coordinator, own); err != nil {
			return err
		}
		if err := tx.exec(`DELETE FROM acknowledgements WHERE coordinator = $1`, f.coordinator); err != nil {
			return err
		}
		tx.Then(func() { f.j.setFeed(f.coordinator, own) })
		return tx.restate()
	})
	if err == nil {
		f.j.tail.forget() // the tail may have events that are no longer stored
		f.j.restated.Add(1)
	}
	return err
}

// EncodedEvents implements link.EventSource.
func (f *Feed) EncodedEvents(
	ctx context.Context, after int64, max int,
) (id string, events []writ.EncodedEvent, err error) {
	id = f.ID() // before the read, so that no event of a later generation is sent under this ID
	events, err = f.j.await(ctx, after, max)
	return id, events, f.dropUnreadable(ctx, err)
}

// dropUnreadable deletes a row of events that cannot be decoded, and all events before it. A coordinator that lacks a
// deleted event then receives the whole state again, as after Forget. It returns err, joined with the error of the
// deletion.
func (f *Feed) dropUnreadable(ctx context.Context, err error) error {
	bad, ok := errors.AsType[*unreadableEvents](err)
	if !ok {
		return err
	}
	if c := f.j.codes.Load(); c != nil {
		_ = c.refuse("events", []any{bad.last})
	}
	return errors.Join(err, f.j.Write(failpoint.At(ctx, failpoint.JournalForgotten), func(tx *Tx) error {
		return tx.exec(`DELETE FROM events WHERE seq <= $1`, bad.last)
	}))
}

// Acknowledge implements link.EventSource.
func (f *Feed) Acknowledge(ctx context.Context, seq int64) error {
	return f.j.Write(failpoint.At(ctx, failpoint.EventsConfirmed), func(tx *Tx) error {
		return tx.exec(`INSERT INTO acknowledgements (coordinator, seq) VALUES ($1, $2)
			ON CONFLICT (coordinator) DO UPDATE SET seq = excluded.seq WHERE acknowledgements.seq < excluded.seq`, f.coordinator,
			seq)
	})
}

// feeds returns the generations of single coordinators by URL.
func (tx *Tx) feeds() (map[string]string, error) {
	rows, err := tx.QueryContext(tx.ctx, `SELECT name, value FROM meta WHERE name LIKE $1`, feedPrefix+"%")
	return sqldb.Map(rows, err, func(row *sql.Rows) (url, id string, err error) {
		err = row.Scan(&url, &id)
		return strings.TrimPrefix(url, feedPrefix), id, err
	})
}

// Unconfirmed returns the number of unacknowledged events by coordinator, and the total number of events. The map has
// only coordinators that have acknowledged at least one event.
func (tx *Tx) Unconfirmed() (open map[string]int64, all int64, err error) {
	if all, err = lastEvent(tx); err != nil {
		return nil, 0, err
	}
	rows, err := tx.QueryContext(tx.ctx, `SELECT coordinator, seq FROM acknowledgements`)
	open, err = sqldb.Map(rows, err, func(row *sql.Rows) (coordinator string, open int64, err error) {
		var seq int64
		err = row.Scan(&coordinator, &seq)
		return coordinator, all - seq, err
	})
	return open, all, err
}
