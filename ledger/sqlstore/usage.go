package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// usedColumns are what is added up.
var usedColumns = []string{"cpu_seconds", "memory_mib_seconds", "disk_gib_seconds", "received", "sent"}

// mostUsed is more than any resource uses in an hour, as supervisors bound it, too, when their nodes say it: 4,096 processors, 64 TiB of memory, 16 PiB of
// disk, 800 Gbit/s each way.
var mostUsed = writ.Used{CPUSeconds: 4096 * 3600, MemoryMiBSeconds: 64 << 20 * 3600, DiskGiBSeconds: 16 << 20 * 3600, Received: 100e9 * 3600, Sent: 100e9 * 3600}

// mostSum is where sums end. A supervisor may name any number of resources, nodes and hours, and a sum that no integer holds would fail each page
// that it is on, and on PostgreSQL the events that add to it. Some of these sums can still be added up.
const mostSum = 1 << 60

// possible takes each number between none and mostUsed: else a datacenter could take off what a project has used in others.
func possible(u writ.Used) writ.Used {
	u = u.Most(writ.Used{})
	return writ.Used{
		CPUSeconds: min(u.CPUSeconds, mostUsed.CPUSeconds), MemoryMiBSeconds: min(u.MemoryMiBSeconds, mostUsed.MemoryMiBSeconds),
		DiskGiBSeconds: min(u.DiskGiBSeconds, mostUsed.DiskGiBSeconds), Received: min(u.Received, mostUsed.Received), Sent: min(u.Sent, mostUsed.Sent),
	}
}

// keepUsage takes over what a datacenter says of an hour, where it is more than is known, and adds that to the month.
func keepUsage(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, u writ.Usage) error {
	u.Used = possible(u.Used)
	added := u.Used
	var known writ.Used
	err := tx.QueryRowContext(ctx, `
		SELECT `+strings.Join(usedColumns, ", ")+` FROM usage
		WHERE project = $1 AND hour = $2 AND datacenter = $3 AND kind = $4 AND name = $5 AND uid = $6 AND node = $7`,
		string(u.Project), micros(u.Hour), string(datacenter), string(u.Kind), u.Name, string(u.UID), string(u.Node),
	).Scan(&known.CPUSeconds, &known.MemoryMiBSeconds, &known.DiskGiBSeconds, &known.Received, &known.Sent)
	switch {
	case err == nil:
		most := known.Most(u.Used)
		if most == known {
			return nil
		}
		added = writ.Used{
			CPUSeconds: most.CPUSeconds - known.CPUSeconds, MemoryMiBSeconds: most.MemoryMiBSeconds - known.MemoryMiBSeconds,
			DiskGiBSeconds: most.DiskGiBSeconds - known.DiskGiBSeconds, Received: most.Received - known.Received, Sent: most.Sent - known.Sent,
		}
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	if _, err := tx.ExecContext(ctx, keepUsageText, string(u.Project), micros(u.Hour), string(datacenter), string(u.Kind), u.Name, string(u.UID), string(u.Node),
		u.CPUSeconds, u.MemoryMiBSeconds, u.DiskGiBSeconds, u.Received, u.Sent); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, addToMonthText, monthOf(u.Hour), string(u.Project), string(u.Kind), u.Name, string(u.UID), string(datacenter), micros(u.Hour),
		added.CPUSeconds, added.MemoryMiBSeconds, added.DiskGiBSeconds, added.Received, added.Sent)
	return err
}

var addToMonthText = func() string {
	sets := []string{
		"first = CASE WHEN excluded.first < usage_of_months.first THEN excluded.first ELSE usage_of_months.first END",
		"last = CASE WHEN excluded.last > usage_of_months.last THEN excluded.last ELSE usage_of_months.last END",
	}
	for _, c := range usedColumns {
		sets = append(sets, fmt.Sprintf("%[1]s = CASE WHEN usage_of_months.%[1]s < %[2]d - excluded.%[1]s THEN usage_of_months.%[1]s + excluded.%[1]s ELSE %[2]d END", c, mostSum))
	}
	return `
		INSERT INTO usage_of_months (month, project, kind, name, uid, datacenter, first, last, ` + strings.Join(usedColumns, ", ") + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (month, project, kind, name, uid, datacenter) DO UPDATE SET ` + strings.Join(sets, ", ")
}()

// monthOf counts the months from the year 0 to a time.
func monthOf(t time.Time) int64 { return int64(12*t.UTC().Year()+int(t.UTC().Month())) - 1 }

// isMonth reports whether a time is the beginning of a month, or none is given.
func isMonth(t time.Time) bool {
	t = t.UTC()
	return t.IsZero() || t.Equal(time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC))
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

// fromUsage adds the table and the conditions of a filter: hours of whole months are added up already.
func fromUsage(q *query, filter ledger.UsageFilter) {
	switch {
	case !isMonth(filter.From) || !isMonth(filter.Until):
		q.add(" FROM usage")
		if !filter.From.IsZero() {
			q.and("hour >= ?", micros(filter.From))
		}
		if !filter.Until.IsZero() {
			q.and("hour < ?", micros(filter.Until))
		}
	case isOneMonth(filter): // whose rows are in the order of lists
		q.add(" FROM usage_of_months")
		q.and("month = ?", monthOf(filter.From))
	default:
		q.add(" FROM usage_of_months")
		if !filter.From.IsZero() {
			q.and("month >= ?", monthOf(filter.From))
		}
		if !filter.Until.IsZero() {
			q.and("month < ?", monthOf(filter.Until))
		}
	}
	andIn(q, "project", filter.Projects)
	if filter.Datacenter != "" {
		q.and("datacenter = ?", string(filter.Datacenter))
	}
}

func isOneMonth(filter ledger.UsageFilter) bool {
	return !filter.From.IsZero() && isMonth(filter.From) && filter.Until.Equal(filter.From.AddDate(0, 1, 0))
}

// sumOf is the sum of a column, mostSum at most. It adds up the upper and the lower bits by themselves, because SQLite ends a query whose sum no integer
// holds. PostgreSQL's sum of BIGINT is NUMERIC.
func sumOf(column string) string {
	const unit = 1 << 20
	return fmt.Sprintf("CAST(CASE WHEN SUM(%[1]s / %[2]d) < %[3]d THEN SUM(%[1]s / %[2]d) * %[2]d + SUM(%[1]s %% %[2]d) ELSE %[4]d END AS BIGINT)",
		column, unit, mostSum/unit, mostSum)
}

// times are the columns with the first and the last hour of a row of the table that fromUsage takes.
func times(filter ledger.UsageFilter) (first, last string) {
	if isMonth(filter.From) && isMonth(filter.Until) {
		return "first", "last"
	}
	return "hour", "hour"
}

// Usage sums what resources have used.
func (s *Store) Usage(ctx context.Context, filter ledger.UsageFilter, p ledger.Page) (ledger.List[ledger.Usage], error) {
	q, err := listUsage(filter, p)
	if err != nil {
		return ledger.List[ledger.Usage]{}, err
	}
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	list, err := page(rows, err, limit(p), func(rows scanner) (ledger.Usage, []any, error) {
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

// listUsage asks for a page of usage, and one more.
func listUsage(filter ledger.UsageFilter, p ledger.Page) (*query, error) {
	first, last := times(filter)
	q := selectFrom(`SELECT project, kind, name, uid, datacenter, MIN(` + first + `), MAX(` + last + `)`)
	for _, c := range usedColumns {
		q.add(", " + sumOf(c))
	}
	fromUsage(q, filter)
	if p.Cursor != "" {
		var project, kind, name, uid, datacenter string
		if err := parseCursor(p.Cursor, &project, &kind, &name, &uid, &datacenter); err != nil {
			return nil, err
		}
		q.and("(project, kind, name, uid, datacenter) > (?, ?, ?, ?, ?)", project, kind, name, uid, datacenter)
	}
	q.add("\nGROUP BY project, kind, name, uid, datacenter\nORDER BY project, kind, name, uid, datacenter\nLIMIT ?", limit(p)+1)
	return q, nil
}

// UsageOfProjects sums what the resources of each project have used.
func (s *Store) UsageOfProjects(ctx context.Context, filter ledger.UsageFilter, p ledger.Page) (ledger.List[ledger.ProjectUsage], error) {
	q, err := listUsageOfProjects(filter, p)
	if err != nil {
		return ledger.List[ledger.ProjectUsage]{}, err
	}
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	list, err := page(rows, err, limit(p), func(rows scanner) (u ledger.ProjectUsage, key []any, err error) {
		err = rows.Scan(&u.Project, &u.Resources, &u.CPUSeconds, &u.MemoryMiBSeconds, &u.DiskGiBSeconds, &u.Received, &u.Sent)
		return u, []any{u.Project}, err
	})
	if err != nil {
		return list, fmt.Errorf("sum usage of projects: %w", err)
	}
	return list, nil
}

// listUsageOfProjects asks for a page of projects, and one more.
func listUsageOfProjects(filter ledger.UsageFilter, p ledger.Page) (*query, error) {
	q := selectFrom(`SELECT project, COUNT(*)`)
	for _, c := range usedColumns {
		q.add(", " + sumOf(c))
	}
	one := isOneMonth(filter) // of which each resource has one row
	if !one {
		q.add(" FROM (SELECT project")
		for _, c := range usedColumns {
			q.add(", " + sumOf(c) + " AS " + c)
		}
	}
	fromUsage(q, filter)
	if p.Cursor != "" {
		var project string
		if err := parseCursor(p.Cursor, &project); err != nil {
			return nil, err
		}
		q.and("project > ?", project)
	}
	if !one {
		q.add("\nGROUP BY project, kind, name, uid, datacenter) AS resources")
	}
	q.add("\nGROUP BY project\nORDER BY project\nLIMIT ?", limit(p)+1)
	return q, nil
}
