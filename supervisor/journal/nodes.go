package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/cbor"
	"writ/internal/sqldb"
)

// Node is a node with its keys.
type Node struct {
	writ.Node
	PublicKey []byte `json:"public_key"` // ed25519, 32 bytes
	AgeKey    string `json:"age_key,omitempty"`
	Decisions int    `json:"decisions,omitempty"` // how many were made about it: of two records the one with more is newer
	Token     string `json:"token,omitempty"`     // id of the token that it joined with
	// Lost is the signed statement by which it is gone: the node verifies that itself.
	Lost []byte `json:"lost,omitempty"`
	// Superseded are the resources and attempts that a node that is gone must not go on with. What it answered is kept as it signed it.
	Superseded  []Superseded `json:"superseded,omitempty"`
	FenceAnswer []byte       `json:"fence_answer,omitempty"`
	FenceRound  int64        `json:"fence_round,omitempty"` // of that answer: a later one counts
}

// Superseded is something that a node had when a person signed that it is gone: a resource, or a call that was out there and may have begun.
type Superseded struct {
	writ.ResourceID
	UID writ.UID     `json:"uid,omitempty"`
	Job *writ.JobKey `json:"job,omitempty"` // of a call
}

// column is what the unique column for names has of a node: only an admitted one owns its name.
func (n *Node) column() string {
	if n.Admission == writ.AdmissionApproved {
		return n.Name
	}
	return "~" + string(n.ID) // which is no name
}

// PutNode keeps a node, new or changed. Keys are unique in the datacenter, and names among the admitted nodes; a second node with either is an
// error that sqldb.IsDuplicate recognises.
func (tx *Tx) PutNode(n *Node) error {
	body, err := cbor.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode node: %w", err)
	}
	if body, err = tx.withCode("nodes", body, string(n.ID)); err != nil {
		return err
	}
	return tx.exec(`INSERT INTO nodes (id, name, key_id, body) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, body = excluded.body`,
		string(n.ID), n.column(), string(envelope.IDOf(n.PublicKey)), body)
}

// Node returns a node, nil if there is none.
func (tx *Tx) Node(id writ.NodeID) (*Node, error) {
	return get[Node](tx, "nodes", `SELECT body FROM nodes WHERE id = $1`, string(id))
}

// NodeNamed returns the admitted node with a name, nil if there is none.
func (tx *Tx) NodeNamed(name string) (*Node, error) {
	var id writ.NodeID
	err := tx.QueryRowContext(tx.ctx, `SELECT id FROM nodes WHERE name = $1`, name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n, err := tx.Node(id)
	if n != nil && n.column() != name { // the column says so, and the record does not
		return nil, err
	}
	return n, err
}

// releaseNames lets go of names that nodes own which are not admitted, as they did in journals of an earlier version.
func (tx *Tx) releaseNames() error {
	owners, err := list[Node](tx, "nodes", `SELECT id, body FROM nodes WHERE substr(name, 1, 1) <> '~'`)
	for _, n := range owners {
		if err == nil && n.Admission != writ.AdmissionApproved {
			err = tx.PutNode(n)
		}
	}
	return err
}

// Nodes returns all nodes, by name. Removed ones stay, so that no id is ever used again.
func (tx *Tx) Nodes() ([]*Node, error) {
	return list[Node](tx, "nodes", `SELECT id, body FROM nodes ORDER BY name`)
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
	mac, err := tx.code("tokens", t.ID, t.Key, t.CreatedBy, sqldb.Micros(t.Expires), 0, "")
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO tokens (id, key, created_by, expires, spent, spent_key, mac) VALUES ($1, $2, $3, $4, 0, '', $5)
		ON CONFLICT (id) DO NOTHING`,
		t.ID, t.Key, t.CreatedBy, sqldb.Micros(t.Expires), mac)
}

// Token returns a token, nil if there is none.
func (tx *Tx) Token(id string) (*Token, error) {
	t := &Token{ID: id}
	var expires, spent int64
	var mac []byte
	err := tx.QueryRowContext(tx.ctx, `SELECT key, created_by, expires, spent, spent_key, mac FROM tokens WHERE id = $1`, id).
		Scan(&t.Key, &t.CreatedBy, &expires, &spent, &t.SpentKey, &mac)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = tx.check("tokens", mac, id, t.Key, t.CreatedBy, expires, spent, t.SpentKey)
	}
	t.Expires, t.Spent = sqldb.Time(expires), sqldb.Time(spent)
	return t, err
}

// SpendToken spends a token for a key. It reports false if the token was spent, has expired or does not exist: of two that attempt,
// one wins.
func (tx *Tx) SpendToken(id string, key envelope.KeyID) (bool, error) {
	t, err := tx.Token(id)
	if err != nil || t == nil {
		return false, err
	}
	now := sqldb.Micros(tx.Now)
	mac, err := tx.code("tokens", id, t.Key, t.CreatedBy, sqldb.Micros(t.Expires), now, string(key))
	if err != nil {
		return false, err
	}
	return tx.changed(`UPDATE tokens SET spent = $2, spent_key = $3, mac = $4 WHERE id = $1 AND spent = 0 AND expires > $2`, id, now, string(key), mac)
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
