package journal

import (
	"database/sql"

	"writ"
	"writ/identity"
	"writ/identity/chain"
	"writ/internal/sqldb"
)

// AddRoster stores a verified roster with its signed text, and the digests of the earlier versions that the journal
// lacks.
func (tx *Tx) AddRoster(roster *identity.Roster, signed []byte) error {
	newest, err := tx.RosterVersion()
	if err != nil {
		return err
	}
	if err := tx.exec(`INSERT INTO rosters (version, signed) VALUES ($1, $2)`, roster.Version, signed); err != nil {
		return err
	}
	for _, l := range roster.Chain().Entries(newest) {
		err := tx.exec(`
			INSERT INTO roster_links (version, digest, waypoint)
			VALUES ($1, $2, $3)
			ON CONFLICT (version) DO UPDATE SET waypoint = excluded.waypoint`, l.Version, l.Digest.String(), l.Waypoint)
		if err != nil {
			return err
		}
	}
	return nil
}

// RosterVersion returns the newest roster version, or 0.
func (tx *Tx) RosterVersion() (int, error) {
	return sqldb.First[int](tx.QueryRowContext(tx.ctx, `SELECT COALESCE(MAX(version), 0) FROM rosters`))
}

// Roster returns the signed text of a version. It is nil for an unknown version.
func (tx *Tx) Roster(version int) (signed []byte, err error) {
	return sqldb.First[[]byte](tx.QueryRowContext(tx.ctx, `SELECT signed FROM rosters WHERE version = $1`, version))
}

// RosterLinks lists all versions up to the newest version with a text, oldest first. It includes skipped versions,
// whose texts the journal does not have. A version without a row in roster_links was stored by an earlier version of
// writ.
func (tx *Tx) RosterLinks() ([]chain.Entry, error) {
	rows, err := tx.QueryContext(tx.ctx, `
		SELECT version, digest, waypoint
		FROM roster_links
		WHERE version <= (SELECT MAX(version) FROM rosters)
		UNION ALL
		SELECT version, '', TRUE
		FROM rosters
		WHERE NOT EXISTS (SELECT 1 FROM roster_links WHERE roster_links.version = rosters.version)
		ORDER BY version`)
	return sqldb.List(rows, err, func(row *sql.Rows) (l chain.Entry, err error) {
		digest := ""
		if err = row.Scan(&l.Version, &digest, &l.Waypoint); err == nil && digest != "" {
			l.Digest, err = writ.ParseDigest(digest)
		}
		return l, err
	})
}
