// Package journal records the jobs of a node and their results. A repeated delivery is therefore answered from the
// journal and not executed again, even after a crash. It also stores the state that must survive the runner's process:
// the highest epoch (the number of a supervisor's term), the cancelled runs and the number of the last start. The
// package does not depend on keys, queues or drivers.
package journal

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/internal/storelock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Keep is how long a row is kept after the last possible delivery of its job (writ.Job.Until). Later the row is not
// needed: the runner then refuses every delivery of every attempt of the call, even after a failure of the node.
const Keep = 24 * time.Hour

// Journal is the open journal of a node. Its methods may be called concurrently. When a method returns nil, its changes
// are on disk. It returns STORE_UNAVAILABLE if they cannot be written.
type Journal struct {
	Usage   *Usage
	Cancels *Cancels

	db     *sqldb.DB
	lock   *storelock.Lock // nil for a journal in memory
	recent recent
}

// Open opens the journal at path. ":memory:" makes a journal that ends with the process. Only one process at a time may
// have a journal open, because two runners would execute the same job twice. In a second process, Open returns
// CONFLICT.
func Open(ctx context.Context, path string) (*Journal, error) {
	j := &Journal{}
	if path != ":memory:" {
		lock, err := acquire(path)
		if err != nil {
			return nil, err
		}
		j.lock = lock
	}
	files, err := fs.Sub(migrations, "migrations")
	if err == nil {
		j.db, err = sqldb.Open(ctx, path, files)
		j.Usage, j.Cancels = &Usage{j.db}, &Cancels{j.db}
	}
	if err == nil && j.lock != nil {
		err = j.lock.MarkOpened()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the node's journal: %w", withoutBackup(err)), release(j.lock))
	}
	return j, nil
}

// DamagedHint is the next step if the journal of a node is damaged.
const DamagedHint = "a node has no backup: remove it with `writ node remove NODE`, and let it join again from an empty data directory"

// foreignHint is the next step if a data directory has the journal of another node.
const foreignHint = "restore the journal.db of this node; without it, remove the node with `writ node remove NODE`, and let it join again from an empty data directory"

// withoutBackup replaces the hint of a damaged journal, because a node cannot be restored from a backup.
func withoutBackup(err error) error {
	if e, ok := errors.AsType[*writ.Error](err); ok && e.Code == writ.CodeStoreDamaged {
		node := *e
		return node.WithHint(DamagedHint)
	}
	return err
}

// acquire locks the journal at path.
func acquire(path string) (*storelock.Lock, error) {
	lock, err := storelock.Acquire(path)
	if errors.Is(err, storelock.ErrLocked) {
		return nil, writ.Errorf(writ.CodeConflict, "another runner works with this data directory").
			WithHint("stop that process, or use another --data")
	}
	if err != nil {
		return nil, fmt.Errorf("lock the node's journal: %w", err)
	}
	return lock, nil
}

// release unlocks a journal. lock is nil for a journal in memory.
func release(lock *storelock.Lock) error {
	if lock == nil {
		return nil
	}
	return lock.Close()
}

// Close waits for the write in progress and closes the journal.
func (j *Journal) Close() error {
	return errors.Join(j.db.Close(), release(j.lock))
}

// Begin returns the number of this start of the runner, its incarnation. The number is higher than at every earlier
// start, even if the file was lost, as long as the clock is not set back. It is the Unix time in milliseconds, or the
// last number plus one. Begin returns DATA_INCOMPLETE for the journal of another node: without its own journal, the
// node could repeat a job.
func (j *Journal) Begin(ctx context.Context, node writ.NodeID) (int64, error) {
	var incarnation int64
	err := j.db.Write(failpoint.At(ctx, failpoint.NodeBegun), func(tx *sqldb.Tx) error {
		var owner writ.NodeID
		if err := tx.QueryRow("SELECT member FROM node").Scan(&owner); err != nil {
			return err
		}
		if owner != "" && owner != node {
			return writ.Errorf(writ.CodeDataIncomplete, "the journal in this data directory belongs to the node %s, not to %s",
				owner, node).WithHint(foreignHint)
		}
		return tx.QueryRow("UPDATE node SET member = $2, incarnation = CASE WHEN incarnation < $1 THEN $1 ELSE incarnation + 1 END RETURNING incarnation",
			tx.Now.UnixMilli(), node).Scan(&incarnation)
	})
	if err != nil { // the write may still run and set the variable
		return 0, err
	}
	return incarnation, nil
}

// probeSize is the size of a probe in bytes. It exceeds the usual size of one commit with several jobs, because free
// space for a few bytes would prove little.
const probeSize = 64 << 10

// Check returns an error if the next write would fail because of a full disk or a damaged file.
func (j *Journal) Check(ctx context.Context) error { return j.db.Check(ctx) }

// Probe writes and deletes dummy data to find out whether the store is writable.
func (j *Journal) Probe(ctx context.Context) error {
	if err := j.db.Check(ctx); err != nil {
		return err
	}
	err := j.db.Write(failpoint.At(ctx, failpoint.NodeProbed), func(tx *sqldb.Tx) error {
		_, err := tx.Exec("UPDATE node SET probed = $1, probe = $2", sqldb.Micros(tx.Now), make([]byte, probeSize))
		return err
	})
	if err != nil {
		return err
	}
	return j.db.Write(failpoint.At(ctx, failpoint.NodeProbed), func(tx *sqldb.Tx) error {
		_, err := tx.Exec("UPDATE node SET probe = NULL")
		return err
	})
}

// Epoch returns the highest recorded epoch.
func (j *Journal) Epoch(ctx context.Context) (int64, error) {
	var epoch int64
	err := j.db.QueryRow(ctx, "SELECT epoch FROM node").Scan(&epoch)
	return epoch, err
}

// RaiseEpoch records epoch if it is higher than the recorded one.
func (j *Journal) RaiseEpoch(ctx context.Context, epoch int64) error {
	return j.db.Write(failpoint.At(ctx, failpoint.EpochRaised), func(tx *sqldb.Tx) error {
		_, err := tx.Exec("UPDATE node SET epoch = $1 WHERE epoch < $1", epoch)
		return err
	})
}

// pruned limits the jobs that one commit deletes.
const pruned = 500

// Prune deletes jobs whose last possible delivery was more than Keep before `now`, cancels whose Until is over, and
// usage older than Keep. The clock of a node may be wrong, by years if its battery died. Therefore Prune compares jobs
// with `now` or with the end-by of the newest job, which a supervisor set, whichever is earlier. Jobs are deleted in
// small commits, so that other writers wait only briefly.
func (j *Journal) Prune(ctx context.Context, now time.Time) error {
	for more := true; more; {
		err := j.db.Write(failpoint.At(ctx, failpoint.JobsForgotten), func(tx *sqldb.Tx) error {
			var newest int64
			if err := tx.QueryRow("SELECT COALESCE(MAX(end_by), 0) FROM jobs").Scan(&newest); err != nil {
				return err
			}
			last := min(newest, sqldb.Micros(now))
			done, err := tx.Exec("DELETE FROM jobs WHERE rowid IN (SELECT rowid FROM jobs WHERE end_by < $1 LIMIT $2)",
				last-Keep.Microseconds(), pruned)
			if err != nil {
				return err
			}
			n, err := done.RowsAffected()
			more = n == pruned
			return err
		})
		if err != nil {
			return err
		}
	}
	return j.db.Write(failpoint.At(ctx, failpoint.JobsForgotten), func(tx *sqldb.Tx) error {
		if _, err := tx.Exec("DELETE FROM cancels WHERE until < $1", sqldb.Micros(now)); err != nil {
			return err
		}
		return forgetUsage(tx, now.Add(-Keep))
	})
}
