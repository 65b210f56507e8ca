package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"writ"
	"writ/identity/seal"
	"writ/internal/cbor"
	"writ/internal/sqldb"
)

// Node is a node with its keys.
type Node struct {
	writ.Node
	PublicKey []byte `json:"public_key"` // ed25519, 32 bytes
	AgeKey    string `json:"age_key,omitempty"`
	Decisions int    `json:"decisions,omitempty"` // how many were made about it: of two records the one with more is newer
}

// PutNode keeps a node, new or changed. Name and key are unique in the datacenter; a second node with either is an error that
// sqldb.IsDuplicate recognises.
func (tx *Tx) PutNode(n *Node) error {
	body, err := cbor.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode node: %w", err)
	}
	return tx.exec(`INSERT INTO nodes (id, name, key_id, body) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, body = excluded.body`,
		string(n.ID), n.Name, string(seal.IDOf(n.PublicKey)), body)
}

// Node returns a node, nil if there is none.
func (tx *Tx) Node(id writ.NodeID) (*Node, error) {
	return get[Node](tx, `SELECT body FROM nodes WHERE id = $1`, string(id))
}

// Nodes returns all nodes, by name. Removed ones stay, so that no id is ever used again.
func (tx *Tx) Nodes() ([]*Node, error) {
	return list[Node](tx, `SELECT body FROM nodes ORDER BY name`)
}

// Token is a join token as the datacenter keeps it: never its secret.
type Token struct {
	ID        string
	Key       []byte // verifies proofs of the token; nobody can make one with it
	CreatedBy string
	Expires   time.Time
	Spent     time.Time // zero while it is not
	SpentKey  string    // id of the key that it admitted
}

// AddToken keeps a new token. One that is there already stays as it is.
func (tx *Tx) AddToken(t Token) error {
	return tx.exec(`INSERT INTO tokens (id, key, created_by, expires, spent, spent_key) VALUES ($1, $2, $3, $4, 0, '') ON CONFLICT (id) DO NOTHING`,
		t.ID, t.Key, t.CreatedBy, sqldb.Micros(t.Expires))
}

// Token returns a token, nil if there is none.
func (tx *Tx) Token(id string) (*Token, error) {
	t := &Token{ID: id}
	var expires, spent int64
	err := tx.QueryRowContext(tx.ctx, `SELECT key, created_by, expires, spent, spent_key FROM tokens WHERE id = $1`, id).
		Scan(&t.Key, &t.CreatedBy, &expires, &spent, &t.SpentKey)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	t.Expires, t.Spent = sqldb.Time(expires), sqldb.Time(spent)
	return t, err
}

// SpendToken spends a token for a key. It reports false if the token was spent, has expired or does not exist: of two that try,
// one wins.
func (tx *Tx) SpendToken(id string, key seal.KeyID) (bool, error) {
	return tx.changed(`UPDATE tokens SET spent = $2, spent_key = $3 WHERE id = $1 AND spent = 0 AND expires > $2`,
		id, sqldb.Micros(tx.Now), string(key))
}

// AddRoster keeps a roster version as it was signed.
func (tx *Tx) AddRoster(version int, signed []byte) error {
	return tx.exec(`INSERT INTO rosters (version, signed) VALUES ($1, $2)`, version, signed)
}

// RosterVersion returns the newest roster version, 0 if there is none.
func (tx *Tx) RosterVersion() (version int, err error) {
	err = tx.QueryRowContext(tx.ctx, `SELECT COALESCE(MAX(version), 0) FROM rosters`).Scan(&version)
	return version, err
}

// Rosters returns the signed rosters after a version, oldest first.
func (tx *Tx) Rosters(after int) ([][]byte, error) {
	rows, err := tx.QueryContext(tx.ctx, `SELECT signed FROM rosters WHERE version > $1 ORDER BY version`, after)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all [][]byte
	for rows.Next() {
		var signed []byte
		if err := rows.Scan(&signed); err != nil {
			return nil, err
		}
		all = append(all, signed)
	}
	return all, rows.Err()
}

// AddStatement keeps a statement that was carried out, with the answer to it, until it expires.
func (tx *Tx) AddStatement(digest writ.Digest, signed, answer []byte, expires time.Time) error {
	return tx.exec(`INSERT INTO statements (digest, signed, answer, expires) VALUES ($1, $2, $3, $4)`,
		digest.String(), signed, answer, sqldb.Micros(expires))
}

// StatementAnswer returns the answer to a statement that was carried out before, nil if it was not.
func (tx *Tx) StatementAnswer(digest writ.Digest) ([]byte, error) {
	var answer []byte
	err := tx.QueryRowContext(tx.ctx, `SELECT answer FROM statements WHERE digest = $1`, digest.String()).Scan(&answer)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return answer, err
}
