package sqlstore

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
	"writ/ledger"
)

// eventTables hold the events of datacenters, the last event of each journal, and the space that the events use.
type eventTables struct{ tables }

// LastEvent returns the number and the time of a journal's last event.
func (s *eventTables) LastEvent(
	ctx context.Context, datacenter writ.DatacenterID, journal string,
) (seq int64, at time.Time, err error) {
	return lastEvent(s.db.QueryRow(ctx, lastEventQuery, string(datacenter), journal))
}

const lastEventQuery = `SELECT seq, at FROM journals WHERE datacenter = $1 AND journal = $2`

func lastEvent(row scanner) (seq int64, at time.Time, err error) {
	var us int64
	if err = row.Scan(&seq, &us); errors.Is(err, sql.ErrNoRows) {
		return 0, at, nil
	}
	return seq, sqldb.Time(us), err
}

// LastEvents returns the time of the last event of each datacenter.
func (s *eventTables) LastEvents(ctx context.Context) (map[writ.DatacenterID]time.Time, error) {
	type end struct {
		datacenter writ.DatacenterID
		at         time.Time
	}
	rows, err := s.db.Query(ctx, `SELECT datacenter, MAX(at) FROM journals GROUP BY datacenter`)
	ends, err := collect(rows, err, func(row scanner) (e end, err error) {
		var us int64
		err = row.Scan(&e.datacenter, &us)
		e.at = sqldb.Time(us)
		return e, err
	})
	last := make(map[writ.DatacenterID]time.Time)
	for _, e := range ends {
		last[e.datacenter] = e.at
	}
	return last, err
}

// StoreEvents stores consecutive events and updates the copies.
func (s *eventTables) StoreEvents(ctx context.Context, datacenter writ.DatacenterID, events []writ.Event) error {
	if err := consecutive(events); err != nil || len(events) == 0 {
		return err
	}
	err := s.write(failpoint.At(ctx, failpoint.EventsStored), func(tx *sqldb.Tx) error {
		last, err := beginJournal(ctx, tx, datacenter, events[0].Journal)
		if err != nil {
			return err
		}
		fresh := events
		for len(fresh) > 0 && fresh[0].Seq <= last {
			fresh = fresh[1:]
		}
		if len(fresh) == 0 {
			return nil
		}
		if last > 0 && fresh[0].Seq != last+1 {
			return conflict("the events %d to %d of the journal are missing", last+1, fresh[0].Seq-1)
		}
		taken, err := storeEvents(ctx, tx, datacenter, fresh)
		if err != nil {
			return err
		}
		return taken.write(ctx, tx, datacenter, fresh[len(fresh)-1])
	})
	if err != nil {
		return fmt.Errorf("store events: %w", err)
	}
	return nil
}

// beginJournal returns the number of a journal's last event, 0 for a new journal. It prepares the tables for a new
// journal, and for the first events of a day.
func beginJournal(
	ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, journal string,
) (last int64, err error) {
	var day int64
	err = tx.QueryRowContext(ctx, `SELECT seq, day FROM journals WHERE datacenter = $1 AND journal = $2`,
		string(datacenter), journal).Scan(&last, &day)
	isNew := errors.Is(err, sql.ErrNoRows)
	if err != nil && !isNew {
		return 0, err
	}
	if day != dayOf(tx.Now) { // also before a new journal, whose day is 0
		if err := moveShares(ctx, tx, datacenter); err != nil {
			return 0, err
		}
	}
	if isNew {
		if err := forgetCopies(ctx, tx, datacenter); err != nil {
			return 0, err
		}
		if err := forgetJournals(ctx, tx, datacenter); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// forgetCopies deletes a datacenter's nodes and resources before the first events of a new journal. A datacenter gets a
// new journal only when it is restored from a backup.
func forgetCopies(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID) error {
	for _, table := range []string{"nodes", "resources"} {
		if err := tx.Queue(ctx, `DELETE FROM `+table+` WHERE datacenter = $1`,
			string(datacenter)); err != nil {
			return err
		}
	}
	return nil
}

// maxJournals limits the journals of a datacenter for which the ledger stores the last event.
const maxJournals = 100

// forgetJournals deletes the last events of a datacenter's oldest journals, so that maxJournals is not exceeded with
// one more journal.
func forgetJournals(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID) error {
	err := tx.Queue(ctx, `
		DELETE FROM journals
		WHERE datacenter = $1 AND journal NOT IN (
			SELECT journal FROM journals
			WHERE datacenter = $1
			ORDER BY at DESC, journal DESC
			LIMIT $2)`, string(datacenter), maxJournals-1)
	return err
}

// consecutive checks that events are a gapless part of one journal.
func consecutive(events []writ.Event) error {
	for i, e := range events {
		if e.Journal == "" || e.Seq < 1 || e.Journal != events[0].Journal || e.Seq != events[0].Seq+int64(i) {
			return conflict("the events are not consecutive: number %d of journal %q follows number %d", e.Seq,
				e.Journal, events[0].Seq+int64(i)-1)
		}
	}
	return nil
}

// storeEvents stores new events and returns their shares.
func storeEvents(
	ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, events []writ.Event,
) (taken shares, err error) {
	known, err := runsOf(ctx, tx, eventRuns(events))
	if err != nil {
		return taken, err
	}
	next := newEventsOf(tx).reserve(withoutUsage(events))
	c := changes{known: known}
	stored := make([]encoded[ledger.Event], 0, len(events))
	for _, e := range events {
		e = withoutValues(e, datacenter)
		own := ledger.Event{ID: next, Datacenter: datacenter, Event: e}
		body, subject := encodeEvent(own)
		if of, ok := known[e.RunID()]; !ok || of.datacenter == datacenter {
			own.About = e.RunID() // an event about a run of another datacenter has no About
			c.record(e, subject)
		}
		if e.Usage == nil { // usage is only added up, not shown to watchers
			stored = append(stored, encoded[ledger.Event]{own, body})
			next++
		}
	}
	taken.events = int64(len(c.usage)) * rowCost
	var rows [][]any
	size := 0
	for _, e := range stored { // after record has seen all runs of the batch
		e.value.Project = c.projectOf(e.value)
		taken.count(e.value, len(e.json))
		row, err := eventRow(tx, e.value, e.json)
		if err != nil {
			return taken, err
		}
		rows = append(rows, append(row, known[e.value.About].number))
		if size += len(e.json); size >= maxEventBytes { // bounds the memory
			if err := sqldb.QueueRows(ctx, tx, insertEvents, rows); err != nil {
				return taken, err
			}
			rows, size = nil, 0
		}
	}
	if err := sqldb.QueueRows(ctx, tx, insertEvents, rows); err != nil {
		return taken, err
	}
	return taken, c.apply(ctx, tx, datacenter, events[0].Journal)
}

// withoutUsage returns the number of events that are stored. Usage is only added up.
func withoutUsage(events []writ.Event) (n int) {
	for _, e := range events {
		if e.Usage == nil {
			n++
		}
	}
	return n
}

// encodeEvent returns the JSON of an event of a datacenter, and the JSON of the run, call, node or resource that changes
// records. It encodes the subject once.
func encodeEvent(e ledger.Event) (body, subject string) {
	name, rest := "", e
	switch of := e.Event; {
	case of.Run != nil:
		name, subject, rest.Run = "run", encode(of.Run), nil
	case of.Call != nil:
		name, subject, rest.Call = "call", encode(of.Call), nil
	case of.Node != nil:
		name, subject, rest.Node = "node", encode(of.Node), nil
	case of.Resource != nil:
		name, subject, rest.Resource = "resource", encode(of.Resource), nil
	}
	only := rest.Event == writ.Event{Journal: e.Journal, Seq: e.Seq, Time: e.Time} && rest.Submission == nil
	if name == "" || !only { // a log line, usage, or several subjects
		return encode(e), subject
	}
	head := strings.TrimSuffix(encode(rest), "}")
	return head + `,"` + name + `":` + subject + "}", subject
}

// newestID reads the id of the newest event. The counter is at least the newest id that was deleted.
const newestID = `SELECT ` + newestEvent + ` FROM counters WHERE name = 'event'`

const newestEvent = `COALESCE((SELECT MAX(id) FROM events WHERE id > counters.value), value)`

// addEvent stores an event about a run.
func addEvent(ctx context.Context, tx *sqldb.Tx, e ledger.Event) error {
	row, err := eventRow(tx, e, encode(e))
	if err != nil {
		return err
	}
	return tx.Queue(ctx, insertEvent, row...)
}

// maxEventBytes limits an event as it is stored. A frame of a datacenter has at most 1 MiB, but a list of empty objects
// grows to a multiple when it is encoded again with all fields.
const maxEventBytes = 2 << 20

const insertEventInto = `INSERT INTO events (id, datacenter, journal, seq, stored, topic, run, project, body, run_number)`

const insertEvent = insertEventInto + `
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, COALESCE((SELECT number FROM runs WHERE id = $7), 0))`

var insertEvents = sqldb.Insert{Into: insertEventInto}

// eventRow returns the row of an event with its encoded body, but without the number of its run. It also adds the event
// to the new events of tx.
func eventRow(tx *sqldb.Tx, e ledger.Event, body string) ([]any, error) {
	if len(body) > maxEventBytes {
		return nil, writ.Errorf(writ.CodeTooLarge, "the event %d of the datacenter has %d bytes, more than %d", e.Seq,
			len(body), maxEventBytes)
	}
	newEventsOf(tx).add(encodedEvent(e, body))
	return []any{e.ID, string(e.Datacenter), e.Journal, e.Seq, micros(tx.Now), e.Topic(), string(e.About), string(e.Project),
		body}, nil
}

// encodedEvent returns an event with its encoded body.
func encodedEvent(e ledger.Event, body string) ledger.EncodedEvent {
	return ledger.EncodedEvent{
		ID: e.ID, Datacenter: e.Datacenter, Topic: e.Topic(), About: e.About, Project: e.Project, JSON: body,
	}
}

// Events returns events with ids greater than `after`.
func (s *eventTables) Events(
	ctx context.Context, after int64, filter ledger.EventFilter, max int,
) ([]ledger.Event, bool, error) {
	recent, more, ok := s.recent.after(after, filter, max)
	if !ok {
		return s.storedEvents(ctx, after, filter, max)
	}
	events := make([]ledger.Event, len(recent))
	for i, e := range recent {
		if err := decode(e.JSON, &events[i]); err != nil {
			return nil, false, err
		}
		events[i].ID, events[i].About, events[i].Project = e.ID, e.About, e.Project
	}
	return events, more, nil
}

// EncodedEvents returns events with ids greater than `after`. It encodes stored events again instead of trusting their
// rows, because an attacker with write access to the database could end the line of an event.
func (s *eventTables) EncodedEvents(
	ctx context.Context, after int64, filter ledger.EventFilter, max int,
) ([]ledger.EncodedEvent, bool, error) {
	events, more, ok := s.recent.after(after, filter, max)
	if ok {
		return events, more, nil
	}
	stored, more, err := s.storedEvents(ctx, after, filter, max)
	for _, e := range stored {
		events = append(events, encodedEvent(e, encode(e)))
	}
	return events, more, err
}

// storedEvents reads events with ids greater than `after` from the database.
func (s *eventTables) storedEvents(
	ctx context.Context, after int64, filter ledger.EventFilter, max int,
) (events []ledger.Event, more bool, err error) {
	var number int64
	if filter.Run != "" {
		err = s.db.QueryRow(ctx, `SELECT number FROM runs WHERE id = $1`, string(filter.Run)).Scan(&number)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, false, err
		}
		err = nil
	}
	for more = true; more && len(events) == 0 && err == nil; { // again only if all events of a page are unreadable
		q := listEvents(after, filter, number, max)
		read := 0
		rows, failed := s.db.Query(ctx, q.String(), q.args...)
		events, more, err = collectWithin(maxPageBytes, rows, failed, func(row scanner) (e ledger.Event, err error) {
			read++
			e, err = s.damage.scanEvent(row)
			after = e.ID
			return e, err
		})
		more = more || read > 0 && read == max
	}
	return events, more, err
}

// listEvents builds the query for at most max events. number is the number of filter.Run.
func listEvents(after int64, filter ledger.EventFilter, number int64, max int) *query {
	q := selectFrom(`SELECT id, run, project, body FROM events`)
	q.and("id > ?", after)
	andIn(q, "topic", filter.Topics)
	switch { // the conditions of the two indexes
	case number > 0:
		q.and("run_number = ? AND run_number > 0", number)
	case filter.Run != "":
		q.and("run = ? AND run_number = 0 AND run <> ''", string(filter.Run))
	}
	andIs(q, "datacenter", filter.Datacenter)
	if len(filter.Projects) == 1 {
		q.and("project = ?", string(filter.Projects[0]))
	} else { // avoids the project index, which would read and sort all events of the projects for each page
		andIn(q, "project || ''", filter.Projects)
	}
	q.add("\nORDER BY id\nLIMIT ?", max)
	return q
}

func (d *damage) scanEvent(row scanner) (e ledger.Event, err error) {
	var id int64
	var run, project, text string
	if err = row.Scan(&id, &run, &project, &text); err != nil {
		return e, err
	}
	if err = decode(text, &e); err != nil {
		err = d.row(err, "event %d", id)
	}
	e.ID, e.About, e.Project = id, writ.RunID(run), writ.ProjectID(project)
	return e, err
}

// EventRange returns the ids of the oldest and the newest event. It omits events that are committed and not yet in
// memory: a reader that continues after `newest` would skip them.
func (s *eventTables) EventRange(ctx context.Context) (oldest, newest int64, err error) {
	err = s.db.QueryRow(ctx, `
		SELECT COALESCE((SELECT MIN(id) FROM events), value + 1), `+newestEvent+`
		FROM counters
		WHERE name = 'event'`).Scan(&oldest, &newest)
	return oldest, s.recent.upTo(newest), err
}
