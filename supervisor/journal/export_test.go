package journal

import (
	"context"

	"writ/internal/sqldb"
)

// ExpireLeaseForTest does what ten seconds without renewal do.
func (j *Journal) ExpireLeaseForTest(ctx context.Context) error {
	return j.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE meta SET value = '1' WHERE name = 'lease'`)
		return err
	})
}

// ForgetRowsForTest, ForgetEventsForTest and EventsKeptForTest are what Forget keeps to.
const (
	ForgetRowsForTest   = forgetRows
	ForgetEventsForTest = forgetEvents
	EventsKeptForTest   = eventsKept
)

// ExecForTest changes the journal behind its back.
func (j *Journal) ExecForTest(ctx context.Context, query string, args ...any) error {
	return j.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}

// NumberForTest returns the one number that a query finds.
func (j *Journal) NumberForTest(ctx context.Context, query string) (n int, err error) {
	err = j.db.QueryRow(ctx, query).Scan(&n)
	return n, err
}

// MigrationForTest returns the text of a migration.
func MigrationForTest(name string) (string, error) {
	text, err := migrations.ReadFile("migrations/" + name)
	return string(text), err
}

// TailForTest is how many events are kept in memory.
const TailForTest = maxTail

// MigrationsForTest returns the names of all migrations, in their order.
func MigrationsForTest() (names []string) {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		panic(err) // they are part of the program
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}
