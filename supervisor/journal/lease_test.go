package journal_test

import (
	"errors"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

// steal expires the lease of a journal, and begins an epoch for another process.
func steal(t *testing.T, path string) *journal.Journal {
	t.Helper()
	other := open(t, path)
	if err := other.ExpireLeaseForTest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.BeginEpoch(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	return other
}

// Promise: Failures: A superseded supervisor that wakes up writes no record, sends no new job, and becomes a standby.
// How: Every write compares the epoch in its own transaction.
// Also: TestResumedOldSupervisorCannotWrite.
func TestASupervisorOfAnEarlierEpochCannotWrite(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		old := open(t, path)
		if _, err := old.BeginEpoch(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		goOn, ended := make(chan struct{}), make(chan error, 1)
		go func() { // it wakes up after the other process has taken over
			<-goOn
			ended <- old.Write(t.Context(), func(tx *journal.Tx) error { return tx.AddRoster(&identity.Roster{Version: 1}, []byte("late")) })
		}()
		next := steal(t, path)
		close(goOn)
		if err := <-ended; !errors.Is(err, journal.ErrFenced) {
			t.Errorf("a late write: %v", err)
		}
		if err := old.Feed("c").Acknowledge(t.Context(), 7); !errors.Is(err, journal.ErrFenced) {
			t.Errorf("a late acknowledgement: %v", err)
		}
		if err := old.Renew(t.Context()); !errors.Is(err, journal.ErrFenced) {
			t.Errorf("a late renewal: %v", err)
		}
		if err := old.Release(t.Context()); err != nil {
			t.Errorf("a late release: %v", err)
		}
		err := next.Read(t.Context(), func(tx *journal.Tx) error {
			version, err := tx.RosterVersion()
			if version != 0 {
				t.Error("the late write was committed")
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if err := next.Renew(t.Context()); err != nil {
			t.Errorf("the new one: %v", err)
		}
	})
}

func TestALeaseHasOneHolder(t *testing.T) {
	path := server.Store(t)
	first, second := open(t, path), open(t, path)
	if _, err := first.BeginEpoch(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := second.BeginEpoch(t.Context(), time.Now().Add(time.Hour)); !errors.Is(err, journal.ErrHeld) {
		t.Errorf("while it is held, by a clock that is an hour ahead: %v", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := second.BeginEpoch(t.Context(), time.Now()); err != nil {
		t.Errorf("after its release: %v", err)
	}
	if err := first.Write(t.Context(), func(*journal.Tx) error { return nil }); writ.CodeOf(err) != writ.CodeStoreUnavailable {
		t.Errorf("the first: %v", err)
	}
}

// The lease of a process that ended without a release counts for a short time only.
func TestLeaseOfAKilledProcessEndsEarly(t *testing.T) {
	path := server.Store(t)
	first, second := open(t, path), open(t, path)
	if _, err := first.BeginEpoch(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	// age is the time since the last renewal
	begin := func(age time.Duration) error {
		if err := second.RenewedForTest(t.Context(), age); err != nil {
			t.Fatal(err)
		}
		_, err := second.BeginEpoch(t.Context(), time.Now())
		return err
	}
	const late = journal.AbsentAfter + 100*time.Millisecond
	if err := begin(late); !errors.Is(err, journal.ErrHeld) {
		t.Errorf("a late holder that lives: %v", err)
	}
	first.Close() // equals a kill: the connections are closed, and the lease is not released
	if err := begin(0); !errors.Is(err, journal.ErrHeld) {
		t.Errorf("a holder without a connection that has just renewed its lease: %v", err)
	}
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); { // the server notices the closed connection
		if err = begin(late); err == nil {
			return
		}
	}
	t.Errorf("a killed holder: %v", err)
}

// An attacker with write access to the database cannot make its supervisor begin an epoch after which nodes would obey
// no later one.
func TestInvalidEpochIsNotFollowed(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		write(t, j, func(tx *journal.Tx) error {
			_, err := tx.ExecContext(t.Context(), `INSERT INTO meta (name, value) VALUES ('epoch', '9000000000000000000')`)
			return err
		})
		if epoch, err := j.BeginEpoch(t.Context(), time.Now()); writ.CodeOf(err) != writ.CodeEpochInvalid {
			t.Errorf("it began epoch %d, %v", epoch, err)
		}
	})
}
