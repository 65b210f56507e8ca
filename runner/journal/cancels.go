package journal

import (
	"context"
	"database/sql"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
)

// Cancel describes which jobs of a cancelled run are refused.
type Cancel struct {
	Until   time.Time // the record may be dropped afterwards
	Resumes int       // resumes of the run so far; jobs after a later resume are accepted
}

// Cancels is the part of a journal about cancelled runs.
type Cancels struct{ db *sqldb.DB }

// Add records cancelled runs. For a run that is already cancelled, Add keeps the later Until and the higher Resumes.
func (c *Cancels) Add(ctx context.Context, runs map[writ.RunID]Cancel) error {
	if len(runs) == 0 {
		return nil
	}
	return c.db.Write(failpoint.At(ctx, failpoint.CancelsKept), func(tx *sqldb.Tx) error {
		for run, cancel := range runs {
			_, err := tx.Exec(`INSERT INTO cancels (run, until, resumes) VALUES ($1, $2, $3) ON CONFLICT (run) DO UPDATE SET
				until = CASE WHEN cancels.until < excluded.until THEN excluded.until ELSE cancels.until END,
				resumes = CASE WHEN cancels.resumes < excluded.resumes THEN excluded.resumes ELSE cancels.resumes END`,
				run, sqldb.Micros(cancel.Until), cancel.Resumes)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// All returns the cancelled runs.
func (c *Cancels) All(ctx context.Context) (map[writ.RunID]Cancel, error) {
	rows, err := c.db.Query(ctx, "SELECT run, until, resumes FROM cancels")
	return sqldb.Map(rows, err, func(row *sql.Rows) (run writ.RunID, cancel Cancel, err error) {
		var until int64
		err = row.Scan(&run, &until, &cancel.Resumes)
		cancel.Until = sqldb.Time(until)
		return run, cancel, err
	})
}
