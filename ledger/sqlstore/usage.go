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

// usageTables hold the usage of resources by hour and by month.
type usageTables struct{ tables }

// usedColumns lists the columns that are added up.
var usedColumns = []string{"cpu_seconds", "memory_mib_seconds", "disk_gib_seconds", "received", "sent"}

// mostUsed is more than a resource can use in an hour: 4,096 CPUs, 64 TiB of memory, 16 PiB of disk, and 800 Gbit/s in
// each direction. Supervisors apply the same limit to the reports of nodes.
var mostUsed = writ.Used{
	CPUSeconds: 4096 * 3600, MemoryMiBSeconds: 64 << 20 * 3600, DiskGiBSeconds: 16 << 20 * 3600, Received: 100e9 * 3600,
	Sent: 100e9 * 3600,
}

// mostSum caps sums. A supervisor may report any number of resources, nodes and hours. An overflowing sum would make
// the query for each page that contains it fail, and on PostgreSQL also the storing of further events. Several capped
// sums can be added without an overflow.
const mostSum = 1 << 60

// clampUsage limits each number to the range from 0 to mostUsed. A negative number would let a datacenter reduce the
// usage of a project in other datacenters.
func clampUsage(u writ.Used) writ.Used {
	u = u.Most(writ.Used{})
	return writ.Used{
		CPUSeconds:       min(u.CPUSeconds, mostUsed.CPUSeconds),
		MemoryMiBSeconds: min(u.MemoryMiBSeconds, mostUsed.MemoryMiBSeconds),
		DiskGiBSeconds:   min(u.DiskGiBSeconds, mostUsed.DiskGiBSeconds), Received: min(u.Received, mostUsed.Received),
		Sent: min(u.Sent, mostUsed.Sent),
	}
}

// storeUsage raises each number of an hour's stored usage to the reported number, and adds the increase to the month.
func storeUsage(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, u writ.Usage) error {
	u.Used = clampUsage(u.Used)
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
			CPUSeconds:       most.CPUSeconds - known.CPUSeconds,
			MemoryMiBSeconds: most.MemoryMiBSeconds - known.MemoryMiBSeconds,
			DiskGiBSeconds:   most.DiskGiBSeconds - known.DiskGiBSeconds, Received: most.Received - known.Received,
			Sent: most.Sent - known.Sent,
		}
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	if err := tx.Queue(ctx, storeUsageText, string(u.Project), micros(u.Hour), string(datacenter),
		string(u.Kind), u.Name, string(u.UID), string(u.Node),
		u.CPUSeconds, u.MemoryMiBSeconds, u.DiskGiBSeconds, u.Received, u.Sent); err != nil {
		return err
	}
	err = tx.Queue(ctx, addToMonthText, monthOf(u.Hour), string(u.Project), string(u.Kind), u.Name,
		string(u.UID), string(datacenter), micros(u.Hour),
		added.CPUSeconds, added.MemoryMiBSeconds, added.DiskGiBSeconds, added.Received, added.Sent)
	return err
}

var addToMonthText = func() string {
	sets := []string{
		"first = CASE WHEN excluded.first < usage_of_months.first THEN excluded.first ELSE usage_of_months.first END",
		"last = CASE WHEN excluded.last > usage_of_months.last THEN excluded.last ELSE usage_of_months.last END",
	}
	for _, c := range usedColumns {
		sets = append(sets,
			fmt.Sprintf("%[1]s = CASE WHEN usage_of_months.%[1]s < %[2]d - excluded.%[1]s THEN usage_of_months.%[1]s + excluded.%[1]s ELSE %[2]d END", c, mostSum))
	}
	return `
		INSERT INTO usage_of_months (month, project, kind, name, uid, datacenter, first, last, ` + strings.Join(usedColumns,
		", ") + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (month, project, kind, name, uid, datacenter) DO UPDATE SET ` + strings.Join(sets, ", ")
}()

// monthOf returns the number of months from the year 0 to t.
func monthOf(t time.Time) int64 { return int64(12*t.UTC().Year()+int(t.UTC().Month())) - 1 }

// isMonth reports whether t is the start of a month or zero.
func isMonth(t time.Time) bool {
	t = t.UTC()
	return t.IsZero() || t.Equal(time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC))
}

var storeUsageText = func() string {
	var sets []string
	for _, c := range usedColumns {
		sets = append(sets,
			fmt.Sprintf("%[1]s = CASE WHEN usage.%[1]s < excluded.%[1]s THEN excluded.%[1]s ELSE usage.%[1]s END", c))
	}
	return `
		INSERT INTO usage (project, hour, datacenter, kind, name, uid, node, ` + strings.Join(usedColumns, ", ") + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (project, hour, datacenter, kind, name, uid, node) DO UPDATE SET ` + strings.Join(sets, ", ")
}()

// fromUsage adds the table and the conditions of a filter. For whole months it uses the table of monthly sums.
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
	case isOneMonth(filter): // the primary key has the order of lists
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
	andIs(q, "datacenter", filter.Datacenter)
}

func isOneMonth(filter ledger.UsageFilter) bool {
	return !filter.From.IsZero() && isMonth(filter.From) && filter.Until.Equal(filter.From.AddDate(0, 1, 0))
}

// sumOf returns the SQL sum of a column, at most mostSum. It adds the upper and the lower bits separately, because
// SQLite aborts a query whose sum overflows. On PostgreSQL a sum of BIGINT cannot overflow, because it is NUMERIC.
func sumOf(column string) string {
	const unit = 1 << 20
	return fmt.Sprintf("CAST(CASE WHEN SUM(%[1]s / %[2]d) < %[3]d THEN SUM(%[1]s / %[2]d) * %[2]d + SUM(%[1]s %% %[2]d) ELSE %[4]d END AS BIGINT)",
		column, unit, mostSum/unit, mostSum)
}

// times returns the columns with the first and the last hour in the table that fromUsage selects.
func times(filter ledger.UsageFilter) (first, last string) {
	if isMonth(filter.From) && isMonth(filter.Until) {
		return "first", "last"
	}
	return "hour", "hour"
}

// Usage sums the usage of each resource.
func (s *usageTables) Usage(
	ctx context.Context, filter ledger.UsageFilter, p ledger.Page,
) (ledger.List[ledger.Usage], error) {
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
		u.Project = writ.ProjectID(project)
		u.Kind = writ.ResourceKind(kind)
		u.UID = writ.UID(uid)
		u.Datacenter = writ.DatacenterID(datacenter)
		u.First, u.Last = sqldb.Time(first), sqldb.Time(last)
		return u, []any{project, kind, u.Name, uid, datacenter}, err
	})
	if err != nil {
		return list, fmt.Errorf("sum usage: %w", err)
	}
	return list, nil
}

// listUsage builds the query for a page of usage and one more row.
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
	q.add("\nGROUP BY project, kind, name, uid, datacenter\nORDER BY project, kind, name, uid, datacenter\nLIMIT ?",
		limit(p)+1)
	return q, nil
}

// UsageOfProjects sums the usage of each project.
func (s *usageTables) UsageOfProjects(
	ctx context.Context, filter ledger.UsageFilter, p ledger.Page,
) (ledger.List[ledger.ProjectUsage], error) {
	q, err := listUsageOfProjects(filter, p)
	if err != nil {
		return ledger.List[ledger.ProjectUsage]{}, err
	}
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	list, err := page(rows, err, limit(p), func(rows scanner) (u ledger.ProjectUsage, key []any, err error) {
		err = rows.Scan(&u.Project, &u.Resources, &u.CPUSeconds, &u.MemoryMiBSeconds, &u.DiskGiBSeconds, &u.Received,
			&u.Sent)
		return u, []any{u.Project}, err
	})
	if err != nil {
		return list, fmt.Errorf("sum usage of projects: %w", err)
	}
	return list, nil
}

// listUsageOfProjects builds the query for a page of projects and one more row.
func listUsageOfProjects(filter ledger.UsageFilter, p ledger.Page) (*query, error) {
	q := selectFrom(`SELECT project, COUNT(*)`)
	for _, c := range usedColumns {
		q.add(", " + sumOf(c))
	}
	one := isOneMonth(filter) // a month has one row for each resource, so no inner sum is needed
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
