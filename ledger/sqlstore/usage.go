package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// usedColumns are what is added up.
var usedColumns = []string{"cpu_seconds", "memory_mib_seconds", "disk_gib_seconds", "received", "sent"}

// keepUsage takes over what a datacenter says of an hour, where it is more than is known.
func keepUsage(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, u writ.Usage) error {
	_, err := tx.ExecContext(ctx, keepUsageText, string(u.Project), micros(u.Hour), string(datacenter), string(u.Kind), u.Name, string(u.UID), string(u.Node),
		u.CPUSeconds, u.MemoryMiBSeconds, u.DiskGiBSeconds, u.Received, u.Sent)
	return err
}

var keepUsageText = func() string {
	var sets []string
	for _, c := range usedColumns {
		sets = append(sets, fmt.Sprintf("%[1]s = CASE WHEN usage.%[1]s < excluded.%[1]s THEN excluded.%[1]s ELSE usage.%[1]s END", c))
	}
	return `
		INSERT INTO usage (project, hour, datacenter, kind, name, uid, node, ` + strings.Join(usedColumns, ", ") + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (project, hour, datacenter, kind, name, uid, node) DO UPDATE SET ` + strings.Join(sets, ", ")
}()

// selectUsage adds the conditions of a filter.
func selectUsage(q *query, filter ledger.UsageFilter) {
	andIn(q, "project", filter.Projects)
	if filter.Datacenter != "" {
		q.and("datacenter = ?", string(filter.Datacenter))
	}
	if !filter.From.IsZero() {
		q.and("hour >= ?", micros(filter.From))
	}
	if !filter.Until.IsZero() {
		q.and("hour < ?", micros(filter.Until))
	}
}

// Usage sums what resources have used.
func (s *Store) Usage(ctx context.Context, filter ledger.UsageFilter, p ledger.Page) (ledger.List[ledger.Usage], error) {
	q := selectFrom(`SELECT project, kind, name, uid, datacenter, MIN(hour), MAX(hour)`)
	for _, c := range usedColumns {
		q.add(", CAST(SUM(" + c + ") AS BIGINT)") // PostgreSQL's sum of BIGINT is NUMERIC
	}
	q.add(` FROM usage`)
	selectUsage(q, filter)
	if p.Cursor != "" {
		var project, kind, name, uid, datacenter string
		if err := parseCursor(p.Cursor, &project, &kind, &name, &uid, &datacenter); err != nil {
			return ledger.List[ledger.Usage]{}, err
		}
		q.and("(project, kind, name, uid, datacenter) > (?, ?, ?, ?, ?)", project, kind, name, uid, datacenter)
	}
	n := limit(p)
	q.add("\nGROUP BY project, kind, name, uid, datacenter\nORDER BY project, kind, name, uid, datacenter\nLIMIT ?", n+1)
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	list, err := page(rows, err, n, func(rows *sql.Rows) (ledger.Usage, []any, error) {
		var project, kind, uid, datacenter string
		var first, last int64
		var u ledger.Usage
		err := rows.Scan(&project, &kind, &u.Name, &uid, &datacenter, &first, &last,
			&u.CPUSeconds, &u.MemoryMiBSeconds, &u.DiskGiBSeconds, &u.Received, &u.Sent)
		u.Project, u.Kind, u.UID, u.Datacenter = writ.ProjectID(project), writ.ResourceKind(kind), writ.UID(uid), writ.DatacenterID(datacenter)
		u.First, u.Last = sqldb.Time(first), sqldb.Time(last)
		return u, []any{project, kind, u.Name, uid, datacenter}, err
	})
	if err != nil {
		return list, fmt.Errorf("sum usage: %w", err)
	}
	return list, nil
}

// UsageOfProjects sums what the resources of each project have used.
func (s *Store) UsageOfProjects(ctx context.Context, filter ledger.UsageFilter, p ledger.Page) (ledger.List[ledger.ProjectUsage], error) {
	q := selectFrom(`SELECT project, COUNT(*)`)
	for _, c := range usedColumns {
		q.add(", CAST(SUM(" + c + ") AS BIGINT)")
	}
	q.add(" FROM (SELECT project")
	for _, c := range usedColumns {
		q.add(", SUM(" + c + ") AS " + c)
	}
	q.add(` FROM usage`)
	selectUsage(q, filter)
	if p.Cursor != "" {
		var project string
		if err := parseCursor(p.Cursor, &project); err != nil {
			return ledger.List[ledger.ProjectUsage]{}, err
		}
		q.and("project > ?", project)
	}
	n := limit(p)
	q.add("\nGROUP BY project, kind, name, uid, datacenter) AS resources\nGROUP BY project\nORDER BY project\nLIMIT ?", n+1)
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	list, err := page(rows, err, n, func(rows *sql.Rows) (u ledger.ProjectUsage, key []any, err error) {
		err = rows.Scan(&u.Project, &u.Resources, &u.CPUSeconds, &u.MemoryMiBSeconds, &u.DiskGiBSeconds, &u.Received, &u.Sent)
		return u, []any{u.Project}, err
	})
	if err != nil {
		return list, fmt.Errorf("sum usage of projects: %w", err)
	}
	return list, nil
}
