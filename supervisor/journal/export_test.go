package journal

import (
	"context"
	"strconv"
	"time"

	"writ/internal/sqldb"
)

// ExpireLeaseForTest expires the lease, as ten seconds without renewal do.
func (j *Journal) ExpireLeaseForTest(ctx context.Context) error {
	return j.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE meta SET value = '1' WHERE name = 'lease'`)
		return err
	})
}

// RenewedForTest sets the lease to that of a process that renewed it some time ago.
func (j *Journal) RenewedForTest(ctx context.Context, ago time.Duration) error {
	return j.db.Write(ctx, func(tx *sqldb.Tx) error {
		clock, err := tx.Clock(ctx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE meta SET value = $1 WHERE name = 'lease'`,
			strconv.FormatInt(sqldb.Micros(clock.Add(LeaseTime-ago)), 10))
		return err
	})
}

// Limits of Forget.
const (
	ForgetRowsForTest   = forgetRows
	ForgetEventsForTest = forgetEvents
	EventsKeptForTest   = eventsKept
)

// ExecForTest changes the store without the journal's knowledge.
func (j *Journal) ExecForTest(ctx context.Context, query string, args ...any) error {
	return j.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}

// NumberForTest returns the number that a query selects.
func (j *Journal) NumberForTest(ctx context.Context, query string) (n int, err error) {
	err = j.db.QueryRow(ctx, query).Scan(&n)
	return n, err
}

// MigrationForTest returns the text of a migration.
func MigrationForTest(name string) (string, error) {
	text, err := migrations.ReadFile("migrations/" + name)
	return string(text), err
}

// TailForTest is the number of events kept in memory.
const TailForTest = maxTail

// MigrationsForTest returns the names of all migrations in order.
func MigrationsForTest() (names []string) {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		panic(err) // embedded
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// InOneQuery returns the number of first calls of a list that one query reads.
var InOneQuery = inOneQuery
