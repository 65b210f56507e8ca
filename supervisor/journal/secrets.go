package journal

import (
	"database/sql"
	"errors"

	"writ"
	"writ/internal/sqldb"
)

// Secret is a version of a secret, encrypted to the supervisor.
type Secret struct {
	writ.Secret
	Ciphertext []byte      // empty if removed
	Statement  writ.Digest // statement that set it
}

const selectSecrets = `SELECT project, name, version, sealed, statement, set_by, set_at, removed, mac FROM secrets `

// AddSecret records a version of a secret. An existing version is a duplicate-key error.
func (tx *Tx) AddSecret(s *Secret) error {
	row := s.row()
	mac, err := tx.code("secrets", row...)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO secrets (project, name, version, sealed, statement, set_by, set_at, removed, mac)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		append(row, mac)...)
}

// row returns the columns of a secret.
func (s *Secret) row() []any {
	return []any{
		string(s.Project), s.Name, s.Version, s.Ciphertext, s.Statement.String(), s.SetBy, sqldb.Micros(s.Set),
		sqldb.Micros(s.Removed),
	}
}

// NewestSecret returns the newest version of a secret, which may be removed, or nil if no version was ever set.
func (tx *Tx) NewestSecret(project writ.ProjectID, name string) (*Secret, error) {
	return tx.scanSecret(tx.QueryRowContext(tx.ctx,
		selectSecrets+`WHERE project = $1 AND name = $2 ORDER BY version DESC LIMIT 1`,
		string(project), name))
}

// Secret returns a version of a secret, or nil if it is unknown or removed.
func (tx *Tx) Secret(project writ.ProjectID, name string, version int) (*Secret, error) {
	return tx.scanSecret(tx.QueryRowContext(tx.ctx,
		selectSecrets+`WHERE project = $1 AND name = $2 AND version = $3 AND removed = 0`,
		string(project), name, version))
}

// RemoveSecrets deletes the values of a secret up to the version `through`. It deletes them from the statements that
// set them too, and from forged rows, which stay forged. It returns the number of removed versions.
func (tx *Tx) RemoveSecrets(project writ.ProjectID, name string, through int) (int, error) {
	err := tx.exec(`UPDATE statements SET signed = $4 WHERE digest IN (SELECT statement FROM secrets WHERE project = $1 AND name = $2 AND version <= $3)`,
		string(project), name, through, []byte{})
	if err != nil {
		return 0, err
	}
	rows, err := tx.QueryContext(tx.ctx,
		selectSecrets+`WHERE project = $1 AND name = $2 AND version <= $3 AND removed = 0 ORDER BY version`,
		string(project), name, through)
	if err != nil {
		return 0, err
	}
	all, err := tx.scanSecrets(rows)
	if err != nil {
		return 0, err
	}
	err = tx.exec(`UPDATE secrets SET sealed = $4 WHERE project = $1 AND name = $2 AND version <= $3`, string(project), name,
		through, []byte{})
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		s.Ciphertext, s.Removed = []byte{}, tx.Now
		row := s.row()
		mac, err := tx.code("secrets", row...)
		if err != nil {
			return 0, err
		}
		err = tx.exec(`UPDATE secrets SET removed = $4, mac = $5 WHERE project = $1 AND name = $2 AND version = $3`,
			append(row[:3:3], sqldb.Micros(s.Removed), mac)...)
		if err != nil {
			return 0, err
		}
	}
	return len(all), nil
}

// CountSecrets returns the number of versions of all secrets of a project, including removed versions.
func (tx *Tx) CountSecrets(project writ.ProjectID) (int, error) {
	return sqldb.First[int](tx.QueryRowContext(tx.ctx, `SELECT COUNT(*) FROM secrets WHERE project = $1`, string(project)))
}

// ForgetRemovedSecrets deletes the removed versions of a project, except the newest version of each name, which
// determines the next version number.
func (tx *Tx) ForgetRemovedSecrets(project writ.ProjectID) error {
	return tx.exec(`DELETE FROM secrets WHERE project = $1 AND removed <> 0 AND
		version < (SELECT MAX(newest.version) FROM secrets AS newest WHERE newest.project = secrets.project AND newest.name = secrets.name)`,
		string(project))
}

// Secrets returns all versions of all secrets of a project, without values, ordered by project, name and version. An
// empty project means all projects.
func (tx *Tx) Secrets(project writ.ProjectID) ([]writ.Secret, error) {
	rows, err := tx.QueryContext(tx.ctx, selectSecrets+`WHERE $1 = '' OR project = $1 ORDER BY project, name, version`,
		string(project))
	if err != nil {
		return nil, err
	}
	found, err := tx.scanSecrets(rows)
	all := []writ.Secret{}
	for _, s := range found {
		all = append(all, s.Secret)
	}
	return all, err
}

// scanSecrets returns the secrets of rows, without forged rows.
func (tx *Tx) scanSecrets(rows *sql.Rows) (all []*Secret, err error) {
	defer rows.Close()
	for rows.Next() {
		s, err := tx.scanSecret(rows)
		if isForged(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

func (tx *Tx) scanSecret(row interface{ Scan(into ...any) error }) (*Secret, error) {
	var s Secret
	var statement string
	var set, removed int64
	var mac []byte
	err := row.Scan(&s.Project, &s.Name, &s.Version, &s.Ciphertext, &statement, &s.SetBy, &set, &removed, &mac)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.Set, s.Removed = sqldb.Time(set), sqldb.Time(removed)
	if err := tx.check("secrets", mac, string(s.Project), s.Name, s.Version, s.Ciphertext, statement, s.SetBy, set,
		removed); err != nil {
		return nil, err
	}
	s.Statement, err = writ.ParseDigest(statement)
	return &s, err
}
