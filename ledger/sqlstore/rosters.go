package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity"
	"writ/identity/chain"
	"writ/identity/sshsig"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/ledger"
)

// rosterTables holds the rosters, and the regions, datacenters and projects of the newest roster.
type rosterTables struct{ tables }

// AddRoster stores a roster and replaces the rows derived from the previous roster.
func (s *rosterTables) AddRoster(ctx context.Context, roster *identity.Roster, signed []byte) error {
	err := s.db.Write(failpoint.At(ctx, failpoint.LedgerRoster), func(tx *sqldb.Tx) error {
		var newest int
		var same []byte
		err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(version), 0) FROM rosters`).Scan(&newest)
		if err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, `SELECT signed FROM rosters WHERE version = $1`, roster.Version).Scan(&same)
		switch {
		case err == nil && bytes.Equal(same, signed):
			return nil
		case err == nil:
			return conflict("the ledger has another roster of version %d", roster.Version)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		case roster.Version < newest:
			return conflict("version %d of the roster is older than version %d in the ledger", roster.Version, newest)
		}
		err = tx.Queue(ctx, `
			INSERT INTO rosters (version, expires, stored, signed)
			VALUES ($1, $2, $3, $4)`, roster.Version, micros(roster.Expires), micros(tx.Now), signed)
		if err != nil {
			return err
		}
		for _, l := range roster.Chain().Entries(newest) {
			err := tx.Queue(ctx, `
				INSERT INTO roster_links (version, digest, waypoint)
				VALUES ($1, $2, $3)
				ON CONFLICT (version) DO UPDATE SET waypoint = excluded.waypoint`, l.Version, l.Digest.String(), l.Waypoint)
			if err != nil {
				return err
			}
		}
		return project(ctx, tx, roster)
	})
	if err != nil {
		return fmt.Errorf("add roster: %w", err)
	}
	return nil
}

// project replaces the rows of regions, datacenters and projects by those of the roster. It deletes the registrations
// of the roster's supervisors.
func project(ctx context.Context, tx *sqldb.Tx, roster *identity.Roster) error {
	for _, query := range []string{`DELETE FROM datacenters`, `DELETE FROM regions`, `DELETE FROM projects`} {
		if err := tx.Queue(ctx, query); err != nil {
			return err
		}
	}
	for _, d := range roster.Datacenters {
		if err := tx.Queue(ctx, `INSERT INTO regions (name) VALUES ($1) ON CONFLICT (name) DO NOTHING`,
			d.Region); err != nil {
			return err
		}
		row := ledger.Datacenter{Datacenter: d.Datacenter, Enabled: d.Enabled}
		if key := sshsig.SSHKey(d.SupervisorKey); key != nil {
			row.Key = ssh.FingerprintSHA256(key)
		}
		err := tx.Queue(ctx, `
			INSERT INTO datacenters (id, region, name, body)
			VALUES ($1, $2, $3, $4)`, string(d.ID), d.Region, d.Name, encode(row))
		if err != nil {
			return err
		}
		if err := tx.Queue(ctx, `DELETE FROM registrations WHERE key_text = $1`,
			keyText(d.SupervisorKey)); err != nil {
			return err
		}
	}
	for _, p := range roster.Projects {
		err := tx.Queue(ctx, `
			INSERT INTO projects (id, name, tenant)
			VALUES ($1, $2, $3)`, string(p.ID), p.Name, string(p.Tenant))
		if err != nil {
			return err
		}
	}
	return nil
}

// RosterLinks lists the roster versions above `after`. A roster without a row in roster_links was stored by an earlier
// release of writ.
func (s *rosterTables) RosterLinks(ctx context.Context, after int) ([]chain.Entry, error) {
	rows, err := s.db.Query(ctx, `
		SELECT version, digest, waypoint
		FROM roster_links
		WHERE version > $1 AND version <= (SELECT MAX(version) FROM rosters)
		UNION ALL
		SELECT version, '', TRUE
		FROM rosters
		WHERE version > $1 AND NOT EXISTS (SELECT 1 FROM roster_links WHERE roster_links.version = rosters.version)
		ORDER BY version`, after)
	return collect(rows, err, func(rows scanner) (l chain.Entry, err error) {
		digest := ""
		if err := rows.Scan(&l.Version, &digest, &l.Waypoint); err != nil || digest == "" {
			return l, err
		}
		l.Digest, err = writ.ParseDigest(digest)
		return l, err
	})
}

// Roster returns the signed bytes of a version.
func (s *rosterTables) Roster(ctx context.Context, version int) (signed []byte, err error) {
	err = s.db.QueryRow(ctx, `SELECT signed FROM rosters WHERE version = $1`, version).Scan(&signed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, writ.Errorf(writ.CodeNotFound, "the ledger has no version %d of the roster", version)
	}
	return signed, err
}

// Regions lists the regions with the number of their datacenters.
func (s *rosterTables) Regions(ctx context.Context) ([]ledger.Region, error) {
	rows, err := s.db.Query(ctx, `
		SELECT regions.name, COUNT(*)
		FROM regions JOIN datacenters ON datacenters.region = regions.name
		GROUP BY regions.name
		ORDER BY regions.name`)
	return collect(rows, err, func(rows scanner) (r ledger.Region, err error) {
		err = rows.Scan(&r.Name, &r.Datacenters)
		return r, err
	})
}

// Datacenters lists the datacenters.
func (s *rosterTables) Datacenters(ctx context.Context) ([]ledger.Datacenter, error) {
	rows, err := s.db.Query(ctx, `SELECT id, body FROM datacenters ORDER BY region, name`)
	return collect(rows, err, func(rows scanner) (d ledger.Datacenter, err error) {
		var id, text string
		if err = rows.Scan(&id, &text); err != nil {
			return d, err
		}
		if err = decode(text, &d); err != nil {
			err = s.damage.row(err, "datacenter %s", id)
		}
		return d, err
	})
}

// Projects lists the projects.
func (s *rosterTables) Projects(ctx context.Context) ([]identity.Project, error) {
	rows, err := s.db.Query(ctx, `SELECT id, name, tenant FROM projects ORDER BY name, id`)
	return collect(rows, err, func(rows scanner) (p identity.Project, err error) {
		err = rows.Scan(&p.ID, &p.Name, &p.Tenant)
		return p, err
	})
}
