package journal

import (
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

// LeaseTime is how long a journal that several processes can reach stays with the one that renewed its lease last. RenewEvery leaves it
// three attempts.
const (
	LeaseTime  = 10 * time.Second
	RenewEvery = 3 * time.Second
)

var (
	// ErrHeld says that another process has the lease.
	ErrHeld error = writ.Errorf(writ.CodeStoreUnavailable, "another supervisor serves the datacenter").WithHint("this one stands by")
	// ErrFenced says that another process has begun an epoch, so that nothing can be written any more.
	ErrFenced error = writ.Errorf(writ.CodeStoreUnavailable, "another supervisor serves the datacenter now").WithHint("this one stands by")
)

// BeginEpoch takes the lease and with it a new epoch, higher than every earlier one and at least the clock's milliseconds, so that even a
// journal restored from a backup fences whatever was sent after the backup. It is ErrHeld while another process has the lease; a journal
// in a file has one process only, which needs to wait for nobody.
func (j *Journal) BeginEpoch(ctx context.Context, now time.Time) (int64, error) {
	var epoch, reconcileUntil int64
	adopted := 0
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
		last, err := tx.number(metaEpoch)
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
		if j.db.Shared() && last != j.epoch.Load() && clock.Before(sqldb.Time(until)) {
			return ErrHeld
		}
		if err := tx.Current(tx.ctx); err != nil { // a later version has upgraded the journal since this process opened it
			return err
		}
		if err := writ.CheckEpoch(last, now); err != nil { // no node would obey what comes after it
			return fmt.Errorf("follow the last epoch of the journal: %w", err)
		}
		if adopted, err = tx.adopt(); err != nil {
			return err
		}
		if tx.codes != nil {
			if err := tx.adoptValues(); err != nil {
				return err
			}
		}
		if clock, err = tx.Clock(ctx); err != nil { // to adopt may take long
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
		if err := tx.releaseNames(); err != nil {
			return err
		}
		*j.known = newest{} // another process may have forgotten some meanwhile
		return tx.lease(clock.Add(LeaseTime))
	})
	if err == nil {
		j.epoch.Store(epoch)
		j.reconcileUntil.Store(reconcileUntil)
		j.epochs.Store(&epochs)
		j.restored.Store(false)
		j.tail.forget() // another process may have told something meanwhile
		if c := j.codes.Load(); adopted > 0 && c.Adopted != nil {
			c.Adopted(adopted)
		}
	}
	return epoch, err
}

// requireNoLease fails while a supervisor has the lease of a journal that is about to be upgraded: what it writes would fit no more.
func requireNoLease(ctx context.Context, store *sql.DB) error {
	var left float64
	err := store.QueryRowContext(ctx, `SELECT COALESCE(MAX(CAST(value AS BIGINT)) / 1000000.0 - EXTRACT(EPOCH FROM clock_timestamp()), 0)
		FROM meta WHERE name = 'lease'`).Scan(&left)
	if err != nil {
		return err
	}
	if left > 0 {
		return writ.Errorf(writ.CodeStoreUnavailable, "the journal has to be upgraded, and a supervisor of an earlier version serves with it or was killed less than %s ago", LeaseTime).
			WithHint("stop that one, and start this one again when the lease of %s is over", LeaseTime)
	}
	return nil
}

// Renew keeps the lease for LeaseTime from now, by the clock of the store.
func (j *Journal) Renew(ctx context.Context) error {
	return j.Write(failpoint.At(ctx, failpoint.LeaseRenewed), func(tx *Tx) error {
		clock, err := tx.Clock(ctx)
		if err != nil || !j.db.Shared() {
			return err
		}
		if err := tx.Current(ctx); err != nil { // a later version upgraded the journal while this one took the lease
			return err
		}
		return tx.lease(clock.Add(LeaseTime))
	})
}

// Release gives the lease back, so that nobody has to wait for its end. The last write of this process may be part of that.
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

// Shared reports whether other processes can reach the journal, so that its lease must be renewed.
func (j *Journal) Shared() bool { return j.db.Shared() }

// mustReign fails if the epoch of this process is over. One process writes at a time, so it is not over before the commit either.
func (j *Journal) mustReign(tx *Tx) error {
	mine := j.epoch.Load()
	if mine == 0 {
		return nil
	}
	last, err := tx.number(metaEpoch)
	if err == nil && last != mine {
		err = ErrFenced
	}
	return err
}

func (tx *Tx) lease(until time.Time) error {
	return tx.setMeta(metaLease, strconv.FormatInt(sqldb.Micros(until), 10))
}

// number returns what meta has under a name as a number, 0 if it has nothing.
func (tx *Tx) number(name string) (int64, error) {
	text, err := tx.meta(name)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}
