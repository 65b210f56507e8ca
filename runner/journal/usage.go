package journal

import (
	"context"
	"database/sql"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
)

// Reading holds the counters of a resource at its last reading.
type Reading struct {
	At             time.Time // by the node's clock
	Received, Sent int64     // bytes
}

// Use is the additional use of a resource within one hour.
type Use struct {
	Resource     writ.ResourceID
	UID          writ.UID
	Hour         time.Time
	CPU          time.Duration // virtual CPUs × time
	Memory, Disk time.Duration // MiB × time, GiB × time
	Received     int64         // bytes
	Sent         int64
}

// Version identifies a state of a row of usage.
type Version struct {
	UID    writ.UID
	Hour   time.Time
	Number int64
}

// Usage is the part of a journal about the use of resources.
type Usage struct{ db *sqldb.DB }

// Add adds the use of resources, together with the readings that it was computed from.
func (u *Usage) Add(ctx context.Context, used []Use, readings map[writ.UID]Reading) error {
	if len(used) == 0 && len(readings) == 0 {
		return nil
	}
	return u.db.Write(failpoint.At(ctx, failpoint.UsageKept), func(tx *sqldb.Tx) error {
		for _, one := range used {
			_, err := tx.Exec(`INSERT INTO usage (uid, hour, project, kind, name, cpu_ms, memory_mib_ms, disk_gib_ms, received, sent, version, told)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1, 0) ON CONFLICT (uid, hour) DO UPDATE SET cpu_ms = usage.cpu_ms + excluded.cpu_ms,
				memory_mib_ms = usage.memory_mib_ms + excluded.memory_mib_ms, disk_gib_ms = usage.disk_gib_ms + excluded.disk_gib_ms,
				received = usage.received + excluded.received, sent = usage.sent + excluded.sent, version = usage.version + 1`,
				string(one.UID), sqldb.Micros(one.Hour), string(one.Resource.Project), string(one.Resource.Kind),
				one.Resource.Name,
				one.CPU.Milliseconds(), one.Memory.Milliseconds(), one.Disk.Milliseconds(), one.Received, one.Sent)
			if err != nil {
				return err
			}
		}
		for uid, r := range readings {
			_, err := tx.Exec(`INSERT INTO readings (uid, at, received, sent) VALUES ($1, $2, $3, $4)
				ON CONFLICT (uid) DO UPDATE SET at = excluded.at, received = excluded.received, sent = excluded.sent`,
				string(uid), sqldb.Micros(r.At), r.Received, r.Sent)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Readings returns the last reading of every resource.
func (u *Usage) Readings(ctx context.Context) (map[writ.UID]Reading, error) {
	rows, err := u.db.Query(ctx, `SELECT uid, at, received, sent FROM readings`)
	return sqldb.Map(rows, err, func(row *sql.Rows) (uid writ.UID, r Reading, err error) {
		var at int64
		err = row.Scan(&uid, &at, &r.Received, &r.Sent)
		r.At = sqldb.Time(at)
		return uid, r, err
	})
}

// Unacknowledged returns at most max rows of usage that changed since they were acknowledged, oldest first, with
// their versions.
func (u *Usage) Unacknowledged(ctx context.Context, max int) ([]writ.Usage, []Version, error) {
	rows, err := u.db.Query(ctx,
		`SELECT uid, hour, project, kind, name, cpu_ms, memory_mib_ms, disk_gib_ms, received, sent, version
		FROM usage WHERE version > told ORDER BY hour, uid LIMIT $1`, max)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var usage []writ.Usage
	var versions []Version
	for rows.Next() {
		var uid, project, kind string
		var hour, version int64
		var one writ.Usage
		err := rows.Scan(&uid, &hour, &project, &kind, &one.Name, &one.CPUSeconds, &one.MemoryMiBSeconds, &one.DiskGiBSeconds,
			&one.Received, &one.Sent, &version)
		if err != nil {
			return nil, nil, err
		}
		one.UID, one.Project, one.Kind, one.Hour = writ.UID(uid), writ.ProjectID(project), writ.ResourceKind(kind), sqldb.Time(hour)
		for _, amount := range []*int64{&one.CPUSeconds, &one.MemoryMiBSeconds, &one.DiskGiBSeconds} {
			// Rounded to the nearest second, so that a job that began some microseconds late does not add a whole second.
			*amount = (*amount + 500) / 1000
		}
		usage = append(usage, one)
		versions = append(versions, Version{one.UID, one.Hour, version})
	}
	return usage, versions, rows.Err()
}

// Acknowledge records that the supervisor has received these versions of rows.
func (u *Usage) Acknowledge(ctx context.Context, versions []Version) error {
	return u.db.Write(failpoint.At(ctx, failpoint.UsageAcknowledged), func(tx *sqldb.Tx) error {
		for _, v := range versions {
			if _, err := tx.Exec(`UPDATE usage SET told = $1 WHERE uid = $2 AND hour = $3 AND told < $1`, v.Number,
				string(v.UID), sqldb.Micros(v.Hour)); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgetUsage deletes acknowledged rows for hours before a time, and readings that were not updated since then.
func forgetUsage(tx *sqldb.Tx, before time.Time) error {
	if _, err := tx.Exec(`DELETE FROM usage WHERE version = told AND hour < $1`, sqldb.Micros(before)); err != nil {
		return err
	}
	_, err := tx.Exec(`DELETE FROM readings WHERE at < $1`, sqldb.Micros(before))
	return err
}
