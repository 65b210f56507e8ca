// Package journal is the truth of one datacenter: runs, calls, deliveries, results, resources, nodes, tokens, rosters and the
// outgoing events. What is not in here did not happen. It knows how records are kept and that a state may move only as the tables
// of package writ allow; why something moves is the supervisor's business.
package journal

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/internal/tally"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Journal is an open journal. Close it.
type Journal struct {
	id             atomic.Pointer[string] // changes when a new generation begins
	db             *sqldb.DB
	epoch          atomic.Int64 // of BeginEpoch, 0 before
	reconcileUntil atomic.Int64 // see ReconcilesUntil, unix microseconds
	codes          atomic.Pointer[codes]
	// restored says that the next epoch begins with a journal from a backup.
	restored atomic.Bool
	epochs   atomic.Pointer[[]int64] // that it gave, sorted
	restated atomic.Int64            // see Restated
	tail     *tail
	known    *newest // frames that are on disk

	writes tally.Durations // those that are on disk
	failed atomic.Int64    // writes that the store did not take

	mu    sync.Mutex
	fault error             // of a write; gone with the next probe that succeeds
	feeds map[string]string // generations that only one coordinator is told, by its URL
}

// Tx is a transaction on the journal. Its methods compose: all of them happen, or none.
type Tx struct {
	*sqldb.Tx
	ctx   context.Context
	codes *codes // nil if rows carry none
	*batch
}

// batch is what transactions that share a commit write once for all of them, at its end.
type batch struct {
	events []writ.Event        // without numbers
	told   []writ.EncodedEvent // with numbers
	then   []func()
	loads  map[writ.NodeID]Load // as they are in the journal; nil if they were not read
	shifts map[writ.NodeID]Load // of loads
	frames []writ.Digest        // that it adds
	known  *newest              // frames that are there
}

// Open opens the journal at path (":memory:" in tests), making it if there is none.
func Open(ctx context.Context, path string) (*Journal, error) {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	db, err := sqldb.Open(ctx, path, sub, requireNoLease)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &Journal{db: db, tail: newTail(), known: new(newest)}
	err = j.Write(failpoint.At(ctx, failpoint.JournalMade), func(tx *Tx) error {
		id, err := tx.meta(metaJournal)
		if err == nil && id == "" {
			id = writ.NewUUID()
			err = tx.setMeta(metaJournal, id)
		}
		if err != nil {
			return err
		}
		feeds, err := tx.feeds()
		if err != nil {
			return err
		}
		j.id.Store(&id)
		j.setFeeds(feeds)
		return nil
	})
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return j, nil
}

// OpenToRead opens a journal on PostgreSQL that a supervisor may be at work with, to look into it. Use nothing of it but Read.
func OpenToRead(ctx context.Context, address string) (*Journal, error) {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	db, err := sqldb.OpenToRead(ctx, address, sub)
	if err != nil {
		return nil, err
	}
	return &Journal{db: db, tail: newTail(), known: new(newest)}, nil
}

// ID returns the journal's id. With an event's sequence number it names the event for ever; a journal that came from a backup takes
// another one.
func (j *Journal) ID() string { return *j.id.Load() }

// SetClock says what the times of transactions are read from, time.Now if nothing else is said. Call it before anything is written.
func (j *Journal) SetClock(now func() time.Time) { j.db.Clock = now }

// Close closes the journal; writes under way are finished.
func (j *Journal) Close() error { return j.db.Close() }

// Read runs do on one moment of the journal.
func (j *Journal) Read(ctx context.Context, do func(tx *Tx) error) error {
	return j.db.Read(ctx, func(tx *sqldb.Tx) error { return do(&Tx{Tx: tx, ctx: ctx, codes: j.codes.Load(), batch: new(batch)}) })
}

// Write runs do and returns when what it wrote is on disk. Changes of several callers share a commit; an error of do undoes its own
// only. do may run more than once, so it must have no effect besides those on tx. Once another process has begun an epoch nothing is
// written any more: the error is ErrFenced.
//
//failpoint:none the caller names the write
func (j *Journal) Write(ctx context.Context, do func(tx *Tx) error) error {
	began := time.Now()
	err := j.db.Write(ctx, func(tx *sqldb.Tx) error {
		// Who has begun is waited for; and to watch a context costs as much as a query.
		t := &Tx{Tx: tx, ctx: context.WithoutCancel(ctx), codes: j.codes.Load()}
		if err := j.join(t); err != nil {
			return err
		}
		return do(t)
	})
	switch {
	case err == nil:
		j.writes.Note(time.Since(began))
	case isFault(writ.CodeOf(err)) && !errors.Is(err, ErrFenced):
		j.failed.Add(1)
		j.mu.Lock()
		j.fault = err
		j.mu.Unlock()
	}
	return err
}

func isFault(code writ.Code) bool { return code.IsStoreUnavailable() || code == writ.CodeStoreDamaged }

// Check returns the reason if the next write would fail: a full disk or a damaged file.
func (j *Journal) Check(ctx context.Context) error { return j.db.Check(ctx) }

// Writes returns how long writes took until they were on disk, and how many the store did not take.
func (j *Journal) Writes() (took tally.Spread, failed int64) {
	return j.writes.Spread(), j.failed.Load()
}

// Fault returns why something could not be written since the last probe that succeeded, nil if everything could.
func (j *Journal) Fault() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.fault
}

// probeSize is more than what a step or a submission mostly writes: that there is room for a few bytes promises nothing.
const probeSize = 64 << 10

// Probe writes something without meaning, and takes it away again, to learn whether the journal can be written again.
func (j *Journal) Probe(ctx context.Context) error {
	for _, text := range []string{strings.Repeat("-", probeSize), ""} {
		if err := j.Write(failpoint.At(ctx, failpoint.JournalProbed), func(tx *Tx) error { return tx.setMeta(metaProbe, text) }); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fault = nil
	return nil
}

// join makes a transaction part of its batch. The first of the batch makes sure that nobody else has taken over.
func (j *Journal) join(tx *Tx) error {
	if b, ok := tx.Batch.Common.(*batch); ok {
		tx.batch = b
		return nil
	}
	if err := j.mustReign(tx); err != nil {
		return err
	}
	b := &batch{known: j.known}
	tx.batch, tx.Batch.Common = b, b
	tx.Batch.End = func(*sqldb.Tx) error {
		end := &Tx{Tx: tx.Tx, ctx: context.WithoutCancel(tx.ctx), codes: tx.codes, batch: b}
		if err := end.writeLoads(); err != nil {
			return err
		}
		return end.writeEvents()
	}
	tx.Batch.Done = func() {
		j.known.add(b.frames)
		for _, do := range b.then {
			do()
		}
		j.tail.add(b.told)
	}
	return nil
}

// newest remembers the digests that were added last. It belongs to the writer.
type newest struct {
	digests [128]writ.Digest
	next    int
}

func (n *newest) has(d writ.Digest) bool { return slices.Contains(n.digests[:], d) }

func (n *newest) add(digests []writ.Digest) {
	for _, d := range digests {
		n.digests[n.next] = d
		n.next = (n.next + 1) % len(n.digests)
	}
}

// Then has something done when the change is on disk, before anybody is told of its events. It must be quick: the next commit waits.
func (tx *Tx) Then(do func()) { tx.then = append(tx.then, do) }

func (tx *Tx) exec(query string, args ...any) error {
	_, err := tx.ExecContext(tx.ctx, query, args...)
	return err
}

// changed runs a statement and reports whether it touched a row.
func (tx *Tx) changed(query string, args ...any) (bool, error) {
	result, err := tx.ExecContext(tx.ctx, query, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// get decodes the body of the row of a table with this key, nil if there is none.
func get[T any](tx *Tx, table, query string, key ...any) (*T, error) {
	var body []byte
	err := tx.QueryRowContext(tx.ctx, query, key...).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		body, err = tx.open(table, body, key...)
	}
	if err != nil {
		return nil, err
	}
	return decode[T](body)
}

// list decodes the bodies that query finds behind the keys of a table. Rows that the journal did not write are not among them.
func list[T any](tx *Tx, table, query string, args ...any) ([]*T, error) {
	keys := len(keyOf(table))
	rows, err := tx.someRows(keys+1, query, args...)
	if err != nil {
		return nil, err
	}
	var found []*T
	for _, row := range rows {
		stored, _ := row[keys].([]byte)
		body, err := tx.open(table, stored, row[:keys]...)
		if isForged(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		record, err := decode[T](body)
		if err != nil {
			return nil, err
		}
		found = append(found, record)
	}
	return found, nil
}

func decode[T any](body []byte) (*T, error) {
	record := new(T)
	if err := cbor.Decode(body, record); err != nil {
		return nil, fmt.Errorf("decode %T: %w", record, err)
	}
	return record, nil
}

// Copy writes what the journal in a file holds at this moment into a new file, also while a supervisor works with it.
func Copy(ctx context.Context, from, to string) error { return sqldb.Copy(ctx, from, to) }
