package sqlstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"writ"
	"writ/internal/sqldb"
	"writ/internal/test/testenv"
	"writ/ledger"
)

// A project with more deployments than one step examines keeps the revisions that ended last.
func TestKeptRevisionsAreLimited(t *testing.T) {
	for name, tt := range map[string]struct {
		path func(t *testing.T) string
		many int // deployments
	}{
		"SQLite":     {func(*testing.T) string { return ":memory:" }, 2*pruneStep + 10},
		"PostgreSQL": {func(t *testing.T) string { return testenv.Postgres(t).Store() }, 20},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), tt.path(t))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			began := time.Now().Add(-24 * time.Hour)
			add := func(tx *sqldb.Tx, project writ.ProjectID, deployment string, n int) writ.RunID {
				id := writ.RunID(fmt.Sprintf("%s-%s-%d", project, deployment, n))
				at := began.Add(time.Duration(n) * time.Second)
				run := ledger.Run{
					Run: writ.Run{
						ID: id, Datacenter: "d", Project: project, Deployment: deployment, State: writ.RunSucceeded, Accepted: at,
						Ended: at,
					},
					State: ledger.State(writ.RunSucceeded), Created: at,
				}
				if err := addRun(t.Context(), tx, run, 0, ""); err != nil {
					t.Error(err)
				}
				if _, err := tx.ExecContext(t.Context(), `INSERT INTO submissions (`+submissionColumns+`)
					VALUES ($1, $1, 'd', $2, '', '', 'delivered', '', 0, 0)`, string(id), string(project)); err != nil {
					t.Error(err)
				}
				if _, err := tx.ExecContext(t.Context(), `INSERT INTO submission_texts (run, signed) VALUES ($1, $2)`, string(id), []byte("text")); err != nil {
					t.Error(err)
				}
				return id
			}
			var want []writ.RunID
			var other writ.RunID
			if err := s.db.Write(t.Context(), func(tx *sqldb.Tx) error {
				want = nil
				for n := range tt.many {
					want = append(want, add(tx, "shop", fmt.Sprint("d", n), n))
				}
				other = add(tx, "bank", "d0", 0)
				add(tx, "shop", "last", tt.many)
				want = append(want, add(tx, "shop", "last", tt.many+1))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			left := func(max int, want []writ.RunID) {
				t.Helper()
				if err := s.pruneRuns(t.Context(), time.Now(), max); err != nil {
					t.Fatal(err)
				}
				for _, table := range []string{"SELECT id FROM runs", "SELECT run FROM submissions", "SELECT run FROM submission_texts"} {
					got, err := column[writ.RunID](s.db.Query(t.Context(), table))
					if err != nil {
						t.Fatal(err)
					}
					slices.Sort(got)
					if expected := append(slices.Clone(want), other); !slices.Equal(got, sorted(expected)) {
						t.Errorf("%s: %d rows are left of %d permitted; want %d others", table, len(got), max, len(expected))
					}
				}
			}
			left(tt.many+1, want)
			left(10, want[len(want)-10:])
		})
	}
}

func sorted(ids []writ.RunID) []writ.RunID { slices.Sort(ids); return ids }
