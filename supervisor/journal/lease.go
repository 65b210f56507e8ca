package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
)

// Times of the lease on a journal that several processes can reach.
const (
	// LeaseTime is the duration of the lease. It allows three renewals.
	LeaseTime = 10 * time.Second
	// RenewEvery is the interval of renewals.
	RenewEvery = 3 * time.Second
	// AbsentAfter is the time since the last renewal after which the lease of a process without a connection ends. A
	// living process whose connection broke has a new connection by then, because each renewal checks it.
	AbsentAfter = RenewEvery + 500*time.Millisecond
)

var (
	// ErrHeld means that another process holds the lease.
	ErrHeld error = writ.Errorf(writ.CodeStoreUnavailable, "another supervisor serves the datacenter").
		WithHint("this one stands by")
	// ErrFenced means that another process has begun an epoch, so this process cannot write any more.
	ErrFenced error = writ.Errorf(writ.CodeStoreUnavailable, "another supervisor serves the datacenter now").
			WithHint("this one stands by")
)

// BeginEpoch takes the lease and begins a new epoch. The epoch is higher than every earlier epoch and at least the
// clock's milliseconds. So even a journal restored from a backup fences the jobs that were sent after the backup. It
// returns ErrHeld while another process holds the lease. A journal in a file has only one process and no lease to wait
// for.
func (j *Journal) BeginEpoch(ctx context.Context, now time.Time) (int64, error) {
	var epoch, reconcileUntil int64
	var epochs []int64
	err := j.db.Write(failpoint.At(ctx, failpoint.EpochBegun), func(db *sqldb.Tx) error {
		tx := &Tx{Tx: db, ctx: context.WithoutCancel(ctx), codes: j.codes.Load(), batch: new(batch)}
		id, err := tx.meta(metaJournal) // another process may have begun a new generation
		if err != nil {
			return err
		}
		feeds, err := tx.feeds()
		if err != nil {
			return err
		}
		j.id.Store(&id)
		j.setFeeds(feeds)
		last, err := LastEpoch(tx)
		if err != nil {
			return err
		}
		until, err := tx.number(metaLease)
		if err != nil {
			return err
		}
		clock, err := tx.Clock(ctx)
		if err != nil {
			return err
		}
		if j.db.Shared() && last != j.epoch.Load() {
			if held, err := isHeld(tx, last, sqldb.Time(until), clock); err != nil || held {
				return cmp.Or(err, ErrHeld)
			}
		}
		// A later version may have upgraded the journal since this process opened it.
		if err := tx.Current(tx.ctx); err != nil {
			return err
		}
		if err := writ.CheckEpoch(last, now); err != nil { // no node would obey a higher epoch
			return fmt.Errorf("check the last epoch of the journal: %w", err)
		}
		if err := tx.markKey(); err != nil {
			return err
		}
		epoch = max(last+1, now.UnixMilli())
		if err := tx.setMeta(metaEpoch, strconv.FormatInt(epoch, 10)); err != nil {
			return err
		}
		if epochs, err = tx.giveEpoch(last, epoch); err != nil {
			return err
		}
		if reconcileUntil, err = tx.readReconcileUntil(now, j.restored.Load()); err != nil {
			return err
		}
		*j.known = newest{} // another process may have deleted some of these frames
		return tx.lease(clock.Add(LeaseTime))
	})
	if err == nil {
		j.ports.Forget() // another process may have changed resources and loads
		j.loads.take()
		j.epoch.Store(epoch)
		sqldb.SetLead(j.db, metaText, metaEpoch) // see mustReign
		j.reconcileUntil.Store(reconcileUntil)
		j.epochs.Store(&epochs)
		j.restored.Store(false)
		j.tail.forget()    // another process may have added events in the meantime
		_ = attend(ctx, j) // otherwise the next renewal repeats it
	}
	return epoch, err
}

// isHeld reports whether the process of an epoch still has the lease, which ends at `until`. A process that was killed
// has no connection any more, so its lease ends early.
func isHeld(tx *Tx, epoch int64, until, now time.Time) (bool, error) {
	switch {
	case !now.Before(until):
		return false, nil
	case now.Before(until.Add(AbsentAfter - LeaseTime)):
		return true, nil
	}
	return sqldb.Present(tx.ctx, tx.Tx, presenceOf(epoch))
}

// attend makes the presence of the process of this epoch known to the store.
func attend(ctx context.Context, j *Journal) error {
	ctx, cancel := context.WithTimeout(ctx, RenewEvery)
	defer cancel()
	return sqldb.HoldPresence(ctx, j.db, presenceOf(j.epoch.Load()))
}

func presenceOf(epoch int64) string { return "writ serves epoch " + strconv.FormatInt(epoch, 10) }

// requireNoLease returns an error while a supervisor holds the lease of a journal that is about to be upgraded. The
// writes of that supervisor would not fit the new schema.
func requireNoLease(ctx context.Context, store *sql.DB) error {
	var left float64
	err := store.QueryRowContext(ctx,
		`SELECT COALESCE(MAX(CAST(value AS BIGINT)) / 1000000.0 - EXTRACT(EPOCH FROM clock_timestamp()), 0)
		FROM meta WHERE name = 'lease'`).Scan(&left)
	if err != nil {
		return err
	}
	if left > 0 {
		return writ.Errorf(writ.CodeStoreUnavailable,
			"the journal must be upgraded, but a supervisor of an earlier version uses it or was killed less than %s ago",
			LeaseTime).
			WithHint("stop that supervisor, and start this one again when the lease of %s has expired", LeaseTime)
	}
	return nil
}

// Renew extends the lease to LeaseTime from now, by the clock of the store, and checks the connection that shows that
// this process lives.
func (j *Journal) Renew(ctx context.Context) error {
	err := j.Write(failpoint.At(ctx, failpoint.LeaseRenewed), func(tx *Tx) error {
		clock, err := tx.Clock(ctx)
		if err != nil || !j.db.Shared() {
			return err
		}
		if err := tx.Current(ctx); err != nil { // a later version of writ upgraded the journal at the same time
			return err
		}
		return tx.lease(clock.Add(LeaseTime))
	})
	if err != nil || j.epoch.Load() == 0 {
		return err
	}
	return attend(ctx, j)
}

// Release releases the lease, so that no process has to wait until the lease expires. The functions in `last` make the
// last writes of this process, in the same transaction.
func (j *Journal) Release(ctx context.Context, last ...func(tx *Tx) error) error {
	err := j.Write(failpoint.At(ctx, failpoint.LeaseReleased), func(tx *Tx) error {
		for _, write := range last {
			if err := write(tx); err != nil {
				return err
			}
		}
		return tx.lease(time.Time{})
	})
	if errors.Is(err, ErrFenced) {
		return nil
	}
	return err
}

func (tx *Tx) lease(until time.Time) error {
	return tx.setMeta(metaLease, strconv.FormatInt(sqldb.Micros(until), 10))
}

// number returns a value of meta as a number, 0 if it is missing.
func (tx *Tx) number(name string) (int64, error) {
	text, err := tx.meta(name)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}
