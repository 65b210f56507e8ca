package journal

import (
	"database/sql"
	"errors"

	"writ"
	"writ/internal/sqldb"
)

// Secret is a version of a secret as it is kept: encrypted to the supervisor.
type Secret struct {
	writ.Secret
	Sealed    []byte      // empty if it was removed
	Statement writ.Digest // that set it
}

const selectSecrets = `SELECT project, name, version, sealed, statement, set_by, set_at, removed FROM secrets `

// AddSecret records a version of a secret. One that is there already is a duplicate.
func (tx *Tx) AddSecret(s *Secret) error {
	return tx.exec(`INSERT INTO secrets (project, name, version, sealed, statement, set_by, set_at, removed) VALUES ($1, $2, $3, $4, $5, $6, $7, 0)`,
		string(s.Project), s.Name, s.Version, s.Sealed, s.Statement.String(), s.SetBy, sqldb.Micros(s.Set))
}

// NewestSecret returns the newest version of a secret, also if it was removed; nil if there never was one.
func (tx *Tx) NewestSecret(project writ.ProjectID, name string) (*Secret, error) {
	return scanSecret(tx.QueryRowContext(tx.ctx, selectSecrets+`WHERE project = $1 AND name = $2 ORDER BY version DESC LIMIT 1`, string(project), name))
}

// Secret returns a version of a secret, nil if it is not there or was removed.
func (tx *Tx) Secret(project writ.ProjectID, name string, version int) (*Secret, error) {
	return scanSecret(tx.QueryRowContext(tx.ctx, selectSecrets+`WHERE project = $1 AND name = $2 AND version = $3 AND removed = 0`,
		string(project), name, version))
}

// RemoveSecrets takes away the values of a secret up to a version, also from the statements that set them, and returns how many.
func (tx *Tx) RemoveSecrets(project writ.ProjectID, name string, through int) (int, error) {
	err := tx.exec(`UPDATE statements SET signed = $4 WHERE digest IN (SELECT statement FROM secrets WHERE project = $1 AND name = $2 AND version <= $3)`,
		string(project), name, through, []byte{})
	if err != nil {
		return 0, err
	}
	result, err := tx.ExecContext(tx.ctx, `UPDATE secrets SET sealed = $4, removed = $5 WHERE project = $1 AND name = $2 AND version <= $3 AND removed = 0`,
		string(project), name, through, []byte{}, sqldb.Micros(tx.Now))
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// Secrets returns every version of every secret of a project, of all if it is empty, without values, by project, name and version.
func (tx *Tx) Secrets(project writ.ProjectID) ([]writ.Secret, error) {
	rows, err := tx.QueryContext(tx.ctx, selectSecrets+`WHERE $1 = '' OR project = $1 ORDER BY project, name, version`, string(project))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []writ.Secret{}
	for rows.Next() {
		s, err := scanSecret(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, s.Secret)
	}
	return all, rows.Err()
}

func scanSecret(row interface{ Scan(into ...any) error }) (*Secret, error) {
	var s Secret
	var statement string
	var set, removed int64
	err := row.Scan(&s.Project, &s.Name, &s.Version, &s.Sealed, &statement, &s.SetBy, &set, &removed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.Set, s.Removed = sqldb.Time(set), sqldb.Time(removed)
	s.Statement, err = writ.ParseDigest(statement)
	return &s, err
}
