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
