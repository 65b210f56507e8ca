package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/internal/failpoint"
)

// Feed is the journal as one coordinator is told it: the events that all are told, under the journal's id. A coordinator whose store does not
// go on where the journal does is told them from the beginning, under an id that is its alone, so that nobody else's link ends for what it has or
// claims. It implements link.EventSource.
type Feed struct {
	j           *Journal
	coordinator string
	begun       []time.Time // new generations that it caused of late
}

// Telling all that stands again costs every coordinator a little, and one that lies can ask for it with each link.
const (
	maxGenerations    = 3
	generationsWithin = time.Hour
)

// feedPrefix begins the names in meta under which generations of single coordinators are, by their URLs.
const feedPrefix = "feed/"

// Feed returns the feed of a coordinator, by its URL. Its Agree is called by one goroutine.
func (j *Journal) Feed(coordinator string) *Feed { return &Feed{j: j, coordinator: coordinator} }

// ID names the generation that the coordinator is told.
func (f *Feed) ID() string {
	f.j.mu.Lock()
	defer f.j.mu.Unlock()
	if id, own := f.j.feeds[f.coordinator]; own {
		return id
	}
	return f.j.ID()
}

// Agree implements link.EventSource.
func (f *Feed) Agree(ctx context.Context, id string, seq int64, at time.Time) error {
	var stands standing
	err := f.j.Read(ctx, func(tx *Tx) (err error) {
		stands, err = tx.compare(seq, at)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("compare generations: %w", err)
	case id != f.ID():
		return errors.New("the journal began a new generation since the hello")
	case stands == agrees:
		return nil
	}
	if !f.allow(time.Now()) {
		return fmt.Errorf("the coordinator has event %d of journal %s, which does not go on from there; "+
			"%d new generations within %s are enough: it is left alone until then", seq, id, maxGenerations, generationsWithin)
	}
	if err := f.begin(ctx); err != nil {
		return fmt.Errorf("begin a new generation: %w", err)
	}
	if stands == older && at.Before(f.j.ReconcilesUntil()) {
		return fmt.Errorf("the coordinator has event %d of journal %s, from after the backup of this journal; all that stands is told again, as journal %s",
			seq, id, f.ID())
	}
	if stands == older {
		return fmt.Errorf("the coordinator claims event %d of journal %s, which did not happen here. "+
			"If the journal came from a backup by other means than `writ restore FILE`, stop the supervisor and say so with `writ restore --mark`: "+
			"runs from before it are placed anew otherwise. All that stands is told again, as journal %s", seq, id, f.ID())
	}
	return fmt.Errorf("the coordinator has event %d of journal %s, and this journal does not go on from there: "+
		"one of them came from a backup; all that stands is told again, as journal %s", seq, id, f.ID())
}

// allow reports whether one more new generation may begin now, and counts it.
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

// begin gives the coordinator a generation of its own. It makes the journal none that came from a backup: only the datacenter itself says that.
func (f *Feed) begin(ctx context.Context) error {
	own := writ.NewUUID()
	err := f.j.Write(failpoint.At(ctx, failpoint.GenerationBegun), func(tx *Tx) error {
		if err := tx.setMeta(feedPrefix+f.coordinator, own); err != nil {
			return err
		}
		if err := tx.exec(`DELETE FROM acknowledgements WHERE coordinator = $1`, f.coordinator); err != nil {
			return err
		}
		tx.Then(func() {
			f.j.mu.Lock()
			defer f.j.mu.Unlock()
			f.j.feeds[f.coordinator] = own
		})
		return tx.restate()
	})
	if err == nil {
		f.j.tail.forget() // it may have more than is kept
		f.j.restated.Add(1)
	}
	return err
}

// EncodedEvents implements link.EventSource.
func (f *Feed) EncodedEvents(ctx context.Context, after int64, max int) (id string, events []writ.EncodedEvent, err error) {
	id = f.ID() // before they are read: a reader of one generation is told nothing of a later one under its name
	events, err = f.j.await(ctx, after, max)
	return id, events, err
}

// Acknowledge implements link.EventSource.
func (f *Feed) Acknowledge(ctx context.Context, seq int64) error {
	return f.j.Write(failpoint.At(ctx, failpoint.EventsConfirmed), func(tx *Tx) error {
		return tx.exec(`INSERT INTO acknowledgements (coordinator, seq) VALUES ($1, $2)
			ON CONFLICT (coordinator) DO UPDATE SET seq = excluded.seq WHERE acknowledgements.seq < excluded.seq`, f.coordinator, seq)
	})
}

// feeds returns the generations of single coordinators, by their URLs.
func (tx *Tx) feeds() (map[string]string, error) {
	rows, err := tx.QueryContext(tx.ctx, `SELECT name, value FROM meta WHERE name LIKE $1`, feedPrefix+"%")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	feeds := make(map[string]string)
	for rows.Next() {
		var name, id string
		if err := rows.Scan(&name, &id); err != nil {
			return nil, err
		}
		feeds[strings.TrimPrefix(name, feedPrefix)] = id
	}
	return feeds, rows.Err()
}

// setFeeds replaces what is known of generations of single coordinators.
func (j *Journal) setFeeds(feeds map[string]string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.feeds = feeds
}
