// Package journal stores the state of one datacenter: runs, calls, deliveries, results, resources, nodes, tokens,
// rosters and outgoing events. It is the source of truth: an event that is not in the journal did not happen. The
// package defines the form of the records and rejects state moves that package writ does not allow. The supervisor
// decides which moves to make.
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
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"writ"
	"writ/internal/cbor"
	"writ/internal/failpoint"
	"writ/internal/metrics"
	"writ/internal/sqldb"
	"writ/supervisor/published"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Journal is an open journal. The caller must close it.
type Journal struct {
	db *sqldb.DB
	keyring
	reign
	*health
	*eventLog
	known *newest // recently stored frames: signed messages of nodes with results
	ports *published.Index
	loads *keptLoads
}

// Tx is a transaction on the journal. Its methods compose: either all of their changes are written, or none.
type Tx struct {
	*sqldb.Tx
	ctx   context.Context
	codes *codes // authentication codes of rows; nil without a key for them
	*batch
}

// batch holds changes that the transactions of one commit write together, at its end.
type batch struct {
	events []writ.Event         // without numbers
	told   []writ.EncodedEvent  // with numbers
	then   []func()             // see Then
	loads  map[writ.NodeID]Load // with the changes of this batch; nil if not read
	shifts map[writ.NodeID]Load // changes of loads
	kept   *keptLoads           // of the journal; nil without an epoch, because other processes may write too
	frames []writ.Digest        // frames that the batch adds
	known  *newest              // recent frames on disk
	ports  *published.Index     // of the journal; nil without an epoch, because other processes may write too
}

// Open opens the journal at path, and creates a missing journal. The path is a file, a postgres:// URL, or ":memory:"
// in tests.
func Open(ctx context.Context, path string) (*Journal, error) {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	db, err := sqldb.Open(ctx, path, sub, sqldb.Before(requireNoLease), sqldb.IndexScans)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := newJournal(db)
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

// OpenToRead opens a journal on PostgreSQL for reading, while a supervisor may use it. Only Read may be called.
func OpenToRead(ctx context.Context, address string) (*Journal, error) {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	db, err := sqldb.OpenToRead(ctx, address, sub, sqldb.IndexScans)
	if err != nil {
		return nil, err
	}
	return newJournal(db), nil
}

func newJournal(db *sqldb.DB) *Journal {
	return &Journal{
		db: db, health: newHealth(), reign: reign{db: db}, eventLog: &eventLog{db: db, tail: new(tail)}, known: new(newest),
		ports: new(published.Index), loads: new(keptLoads),
	}
}

// newBatch returns an empty batch of a journal.
func newBatch(j *Journal) *batch {
	b := &batch{known: j.known}
	if j.epoch.Load() != 0 {
		b.ports, b.kept = j.ports, j.loads
	}
	return b
}

// SetClock sets the clock of transactions; the default is time.Now. Call it before the first write.
func (j *Journal) SetClock(now func() time.Time) { j.db.Clock = now }

// Close closes the journal after finishing the current writes.
func (j *Journal) Close() error { return j.db.Close() }

// Read runs `do` on a snapshot of the journal.
func (j *Journal) Read(ctx context.Context, do func(tx *Tx) error) error {
	return j.db.Read(ctx,
		func(tx *sqldb.Tx) error { return do(&Tx{Tx: tx, ctx: ctx, codes: j.codes.Load(), batch: newBatch(j)}) })
}

// Query returns the result of `read`, which runs in a transaction like that of Read.
func Query[T any](ctx context.Context, j *Journal, read func(tx *Tx) (T, error)) (found T, err error) {
	err = j.Read(ctx, func(tx *Tx) (err error) {
		found, err = read(tx)
		return err
	})
	return found, err
}

// Write runs `do` and returns when its changes are on disk. Changes of several callers share a commit; an error of `do`
// reverts only its own changes. `do` may run more than once, so it must have no effects outside of tx. Once another
// process has begun an epoch, every write fails with ErrFenced.
//
//failpoint:none the caller names the write
func (j *Journal) Write(ctx context.Context, do func(tx *Tx) error) error {
	began := time.Now()
	err := j.db.Write(ctx, func(tx *sqldb.Tx) error {
		// The end of ctx does not end a started transaction, because watching a context costs as much as a query.
		t := &Tx{Tx: tx, ctx: context.WithoutCancel(ctx), codes: j.codes.Load()}
		if err := j.join(t); err != nil {
			return err
		}
		return do(t)
	})
	j.note(began, err)
	return err
}

// health records the outcome of writes.
type health struct {
	took   prometheus.Histogram // successful writes
	failed prometheus.Counter   // writes that the store rejected

	mu    sync.Mutex
	fault error // last write error; cleared by a successful probe
}

func newHealth() *health {
	return &health{
		took: metrics.Durations("writ_supervisor_journal_write_seconds",
			"Duration of journal writes until they are on disk, including the wait for other writes."),
		failed: metrics.Events("writ_supervisor_journal_failures_total", "Failed writes to the journal."),
	}
}

// Metrics sends the metrics of writes.
func (h *health) Metrics(to *metrics.Scrape) { to.Include(h.took, h.failed) }

// note records the outcome of a write that started at the time `began`.
func (h *health) note(began time.Time, err error) {
	switch {
	case err == nil:
		h.took.Observe(time.Since(began).Seconds())
	case isFault(writ.CodeOf(err)) && !errors.Is(err, ErrFenced):
		h.failed.Inc()
		h.setFault(err)
	}
}

func (h *health) setFault(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = err
}

// Fault returns the last write error since the last successful probe, or nil.
func (h *health) Fault() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fault
}

func isFault(code writ.Code) bool { return code.IsStoreUnavailable() || code == writ.CodeStoreDamaged }

// Check returns an error if the next write would fail: a full disk or a damaged file.
func (j *Journal) Check(ctx context.Context) error { return j.db.Check(ctx) }

// probeSize exceeds the usual writes of a step or submission, so that a successful probe proves enough room for them.
const probeSize = 64 << 10

// Probe writes and deletes a value without meaning, to find out whether the journal is writable again.
func (j *Journal) Probe(ctx context.Context) error {
	for _, text := range []string{strings.Repeat("-", probeSize), ""} {
		if err := j.Write(failpoint.At(ctx, failpoint.JournalProbed),
			func(tx *Tx) error { return tx.setMeta(metaProbe, text) }); err != nil {
			return err
		}
	}
	j.setFault(nil)
	return nil
}

// join adds a transaction to its batch. The first transaction of a batch checks that no other process has begun an
// epoch.
func (j *Journal) join(tx *Tx) error {
	if b, ok := tx.Batch.Common.(*batch); ok {
		tx.batch = b
		return nil
	}
	if err := j.mustReign(tx); err != nil {
		return err
	}
	b := newBatch(j)
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
		j.ports.Stored(b)
		j.loads.stored(b)
		for _, do := range b.then {
			do()
		}
		j.tail.add(b.told)
	}
	return nil
}

// newest holds the digests of the frames that were stored last. Only write transactions use it, one at a time.
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

// Then registers `do` to run once the change is on disk, before its events are sent. `do` must be fast: the next commit
// waits for it.
func (tx *Tx) Then(do func()) { tx.then = append(tx.then, do) }

// exec runs a statement whose result the change does not need. The arguments must not change after the call.
func (tx *Tx) exec(query string, args ...any) error { return tx.Queue(tx.ctx, query, args...) }

// changed runs a statement and reports whether it changed a row.
func (tx *Tx) changed(query string, args ...any) (bool, error) {
	n, err := tx.affected(query, args...)
	return n > 0, err
}

// affected runs a statement and returns the number of rows that it changed.
func (tx *Tx) affected(query string, args ...any) (int64, error) {
	result, err := tx.ExecContext(tx.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// get returns the decoded body of a row by key, or nil if the row is missing.
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

// list returns the decoded bodies of the rows that query selects. The query must select the key columns, then the body.
// Forged rows are omitted.
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

// encode returns the body of a row, which get and list decode: the encoded record with its code.
func encode(tx *Tx, table string, record any, key ...any) ([]byte, error) {
	body, err := cbor.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", record, err)
	}
	return tx.withCode(table, body, key...)
}

func decode[T any](body []byte) (*T, error) {
	record := new(T)
	if err := cbor.Decode(body, record); err != nil {
		return nil, fmt.Errorf("decode %T: %w", record, err)
	}
	return record, nil
}

// Copy writes a snapshot of the journal file `from` into the new file `to`. A supervisor may use the journal meanwhile.
func Copy(ctx context.Context, from, to string) error { return sqldb.Copy(ctx, from, to) }

// someRows returns rows as texts, numbers and bytes.
func (tx *Tx) someRows(columns int, query string, args ...any) ([][]any, error) {
	rows, err := tx.QueryContext(tx.ctx, query, args...)
	return sqldb.List(rows, err, func(found *sql.Rows) ([]any, error) {
		row, into := make([]any, columns), make([]any, columns)
		for i := range row {
			into[i] = &row[i]
		}
		err := found.Scan(into...)
		return row, err
	})
}
