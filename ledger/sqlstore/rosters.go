package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity"
	"writ/identity/chain"
	"writ/identity/sshsig"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/ledger"
)

// AddRoster stores a roster and replaces the rows derived from the previous one.
func (s *Store) AddRoster(ctx context.Context, roster *identity.Roster, signed []byte) error {
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
		_, err = tx.ExecContext(ctx, `
			INSERT INTO rosters (version, expires, stored, signed)
			VALUES ($1, $2, $3, $4)`, roster.Version, micros(roster.Expires), micros(tx.Now), signed)
		if err != nil {
			return err
		}
		for _, l := range roster.Chain().Entries(newest) {
			_, err := tx.ExecContext(ctx, `
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

// project replaces the rows of regions, datacenters and projects by those of the roster.
func project(ctx context.Context, tx *sqldb.Tx, roster *identity.Roster) error {
	for _, query := range []string{`DELETE FROM datacenters`, `DELETE FROM regions`, `DELETE FROM projects`} {
		if _, err := tx.ExecContext(ctx, query); err != nil {
			return err
		}
	}
	for _, d := range roster.Datacenters {
		if _, err := tx.ExecContext(ctx, `INSERT INTO regions (name) VALUES ($1) ON CONFLICT (name) DO NOTHING`,
			d.Region); err != nil {
			return err
		}
		row := ledger.Datacenter{Datacenter: d.Datacenter, Enabled: d.Enabled}
		if key := sshsig.SSHKey(d.SupervisorKey); key != nil {
			row.Key = ssh.FingerprintSHA256(key)
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO datacenters (id, region, name, body)
			VALUES ($1, $2, $3, $4)`, string(d.ID), d.Region, d.Name, encode(row))
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM registrations WHERE key_text = $1`,
			keyText(d.SupervisorKey)); err != nil {
			return err
		}
	}
	for _, p := range roster.Projects {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO projects (id, name, tenant)
			VALUES ($1, $2, $3)`, string(p.ID), p.Name, string(p.Tenant))
		if err != nil {
			return err
		}
	}
	return nil
}

// RosterLinks lists the versions after a version. A version without a row in roster_links was stored by an earlier
// version of writ.
func (s *Store) RosterLinks(ctx context.Context, after int) ([]chain.Entry, error) {
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
func (s *Store) Roster(ctx context.Context, version int) (signed []byte, err error) {
	err = s.db.QueryRow(ctx, `SELECT signed FROM rosters WHERE version = $1`, version).Scan(&signed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, writ.Errorf(writ.CodeNotFound, "the ledger has no version %d of the roster", version)
	}
	return signed, err
}

// Regions lists the regions with the number of their datacenters.
func (s *Store) Regions(ctx context.Context) ([]ledger.Region, error) {
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
func (s *Store) Datacenters(ctx context.Context) ([]ledger.Datacenter, error) {
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
func (s *Store) Projects(ctx context.Context) ([]identity.Project, error) {
	rows, err := s.db.Query(ctx, `SELECT id, name, tenant FROM projects ORDER BY name, id`)
	return collect(rows, err, func(rows scanner) (p identity.Project, err error) {
		err = rows.Scan(&p.ID, &p.Name, &p.Tenant)
		return p, err
	})
}

// keyText encodes a key for a primary key column. Engines compare bytes differently, but not text.
func keyText(key []byte) string { return base64.StdEncoding.EncodeToString(key) }

// AddRegistration stores a new registration. If too many wait, it deletes one.
func (s *Store) AddRegistration(ctx context.Context, r ledger.Registration) error {
	err := s.db.Write(failpoint.At(ctx, failpoint.RegistrationKept), func(tx *sqldb.Tx) error {
		added, err := affected(tx.ExecContext(ctx, `
			INSERT INTO registrations (id, key_text, token, name, nonce, proof, url, network, received)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (id) DO NOTHING`,
			r.ID().String(), keyText(r.Key), r.Token, r.Name, blob(r.Nonce), blob(r.Proof), r.URL, r.Network,
			micros(r.Received)))
		if err != nil || !added {
			return err
		}
		return displaceRegistration(ctx, tx, r)
	})
	if err != nil {
		return fmt.Errorf("add registration: %w", err)
	}
	return nil
}

// displaceRegistration deletes a registration if too many wait. The ledger has no token to verify proofs with, and
// anyone can send an invalid proof. A proof therefore counts only among the registrations of one network.
func displaceRegistration(ctx context.Context, tx *sqldb.Tx, newest ledger.Registration) error {
	var waiting int
	if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM registrations`).Scan(&waiting); err != nil ||
		waiting <= ledger.MaxRegistrations {
		return err
	}
	var displaced string
	err := tx.QueryRowContext(ctx, `
		SELECT id
		FROM registrations
		ORDER BY COUNT(*) OVER (PARTITION BY network) DESC, LENGTH(proof) > 0, received, id
		LIMIT 1`).Scan(&displaced)
	if err != nil {
		return err
	}
	if displaced == newest.ID().String() {
		return writ.Errorf(writ.CodeRateLimited,
			"%d supervisors already wait for a place in the roster, and all others of this network have a proof",
			ledger.MaxRegistrations).WithHint("start the supervisor with the token that `writ dc add` prints")
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM registrations WHERE id = $1`, displaced)
	return err
}

// blob returns a non-nil slice, because nil would be stored as NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Registrations lists the waiting supervisors.
func (s *Store) Registrations(ctx context.Context) ([]ledger.Registration, error) {
	rows, err := s.db.Query(ctx, `
		SELECT key_text, token, name, nonce, proof, url, network, received
		FROM registrations
		ORDER BY received, id`)
	return collect(rows, err, func(rows scanner) (r ledger.Registration, err error) {
		var key string
		var received int64
		if err := rows.Scan(&key, &r.Token, &r.Name, &r.Nonce, &r.Proof, &r.URL, &r.Network, &received); err != nil {
			return r, err
		}
		r.Received = sqldb.Time(received)
		if r.Key, err = base64.StdEncoding.DecodeString(key); err != nil {
			err = s.damage.row(err, "the registration of %q", r.Name)
		}
		return r, err
	})
}

// RemoveRegistrations deletes old registrations.
func (s *Store) RemoveRegistrations(ctx context.Context, before time.Time) error {
	return s.db.Write(failpoint.At(ctx, failpoint.RegistrationsForgotten), func(tx *sqldb.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM registrations WHERE received < $1`, micros(before))
		return err
	})
}
