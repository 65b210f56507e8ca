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
	// Decisions is the number of decisions about it: of two records, the one with more is newer.
	Decisions int    `json:"decisions,omitempty"`
	Token     string `json:"token,omitempty"` // ID of the token it joined with
	Batch     string `json:"batch,omitempty"` // ID of the batch that admitted it
	// Serial is the serial number of its machine, from its request to join. Later reports do not change it.
	Serial string `json:"serial,omitempty"`
	// Lost is the signed statement that declares it lost. The node verifies it.
	Lost []byte `json:"lost,omitempty"`
	// Superseded lists the resources and attempts that a lost node must not continue. FenceAnswer is the node's signed
	// answer.
	Superseded  []Superseded `json:"superseded,omitempty"`
	FenceAnswer []byte       `json:"fence_answer,omitempty"`
	FenceRound  int64        `json:"fence_round,omitempty"` // round of that answer: a later one replaces it
}

// Superseded is a resource or a call that a node had when a person declared it lost. The call was sent and may have
// started.
type Superseded struct {
	writ.ResourceID
	UID writ.UID     `json:"uid,omitempty"`
	Job *writ.JobKey `json:"job,omitempty"` // set for a call
}

// column returns the node's value of the unique name column: only an admitted node owns its name.
func (n *Node) column() string {
	if n.Admission == writ.AdmissionApproved {
		return n.Name
	}
	return "~" + string(n.ID) // not a valid name
}

// PutNode stores a new or changed node. Keys are unique in the datacenter, and names among the admitted nodes. For a
// duplicate it returns an error that sqldb.IsDuplicate recognizes.
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

// Node returns a node, or nil if it is unknown.
func (tx *Tx) Node(id writ.NodeID) (*Node, error) {
	return get[Node](tx, "nodes", `SELECT body FROM nodes WHERE id = $1`, string(id))
}

// NodeNamed returns the admitted node with a name, or nil.
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
	if n != nil && n.column() != name { // column and record differ
		return nil, err
	}
	return n, err
}

// Nodes returns all nodes, by name. Removed nodes are kept, so that no ID is reused.
func (tx *Tx) Nodes() ([]*Node, error) {
	return list[Node](tx, "nodes", `SELECT id, body FROM nodes ORDER BY name`)
}

// Token is the stored form of a join token. It does not contain the secret.
type Token struct {
	ID        string
	Key       []byte // verifies proofs of the token, but cannot create one
	CreatedBy string
	Expires   time.Time
	Uses      int       // number of nodes that it admits; 0 of a new one means 1
	Used      int       // number of nodes that it has admitted
	Spent     time.Time // time of its last admission or revocation; zero while it is usable
	SpentKey  string    // ID of the key it admitted last; "" if revoked
}

// Revoked reports whether a person revoked the token.
func (t *Token) Revoked() bool { return !t.Spent.IsZero() && t.SpentKey == "" }

// row returns the values that the code of a token covers.
func (t *Token) row() []any {
	return []any{t.ID, t.Key, t.CreatedBy, sqldb.Micros(t.Expires), sqldb.Micros(t.Spent), t.SpentKey}
}

// AddToken stores a new token. An existing token is not changed.
func (tx *Tx) AddToken(t Token) error {
	mac, err := tx.code("tokens", t.row()...)
	if err != nil {
		return err
	}
	added, err := tx.changed(`INSERT INTO tokens (id, key, created_by, expires, spent, spent_key, mac) VALUES ($1, $2, $3, $4, 0, '', $5)
		ON CONFLICT (id) DO NOTHING`,
		t.ID, t.Key, t.CreatedBy, sqldb.Micros(t.Expires), mac)
	if err != nil || !added || t.Uses <= 1 {
		return err
	}
	if mac, err = tx.code("token_uses", t.ID, t.Uses, 0); err != nil {
		return err
	}
	return tx.exec(`INSERT INTO token_uses (token, uses, used, mac) VALUES ($1, $2, 0, $3)`, t.ID, t.Uses, mac)
}

// Token returns a token, or nil if it is unknown.
func (tx *Tx) Token(id string) (*Token, error) {
	all, err := tx.tokens(func(error) bool { return false }, `WHERE id = $1`, id)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// Tokens lists tokens, the latest expiry first. most limits their number. Forged rows are omitted.
func (tx *Tx) Tokens(most int) ([]*Token, error) {
	return tx.tokens(isForged, `ORDER BY expires DESC, id LIMIT $1`, most)
}

// tokens returns the tokens of a query. It skips a token if passOver returns true for its error.
func (tx *Tx) tokens(passOver func(err error) bool, where string, args ...any) (all []*Token, err error) {
	rows, err := tx.QueryContext(tx.ctx,
		`SELECT id, key, created_by, expires, spent, spent_key, tokens.mac, uses, used, token_uses.mac
		FROM tokens LEFT JOIN token_uses ON token = id `+where, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		t := new(Token)
		var expires, spent int64
		var uses, used sql.NullInt64
		var mac, macOfUses []byte
		if err := rows.Scan(&t.ID, &t.Key, &t.CreatedBy, &expires, &spent, &t.SpentKey, &mac, &uses, &used,
			&macOfUses); err != nil {
			return nil, err
		}
		t.Expires, t.Spent, t.Uses = sqldb.Time(expires), sqldb.Time(spent), 1
		err := tx.check("tokens", mac, t.row()...)
		if err == nil && uses.Valid {
			t.Uses, t.Used = int(uses.Int64), int(used.Int64)
			err = tx.check("token_uses", macOfUses, t.ID, t.Uses, t.Used)
		} else if spent != 0 && t.SpentKey != "" {
			t.Used = 1
		}
		switch {
		case err == nil:
			all = append(all, t)
		case !passOver(err):
			return nil, err
		}
	}
	return all, rows.Err()
}

// SpendToken records that a token admits a key. It returns false if the token is used up, expired or unknown. Of two
// concurrent attempts at the last use, one succeeds.
func (tx *Tx) SpendToken(id string, key envelope.KeyID) (bool, error) {
	t, err := tx.Token(id)
	if err != nil || t == nil || !t.Spent.IsZero() || !t.Expires.After(tx.Now) {
		return false, err
	}
	if t.Uses > 1 {
		if won, err := tx.useToken(t); !won || err != nil {
			return false, err
		}
	}
	t.SpentKey = string(key)
	if t.Used++; t.Used >= t.Uses {
		t.Spent = tx.Now
	}
	return tx.putToken(t)
}

// useToken counts a use of a token for several nodes. It returns false if none is left.
func (tx *Tx) useToken(t *Token) (bool, error) {
	if t.Used >= t.Uses {
		return false, nil
	}
	mac, err := tx.code("token_uses", t.ID, t.Uses, t.Used+1)
	if err != nil {
		return false, err
	}
	return tx.changed(`UPDATE token_uses SET used = $2, mac = $3 WHERE token = $1 AND used = $4`, t.ID, t.Used+1, mac,
		t.Used)
}

// RevokeToken revokes a token. The revocation stays in force if the clock goes back. It returns false if the token is
// unknown, used up or revoked.
func (tx *Tx) RevokeToken(id string) (bool, error) {
	t, err := tx.Token(id)
	if err != nil || t == nil || !t.Spent.IsZero() {
		return false, err
	}
	if t.Expires.After(tx.Now) {
		t.Expires = tx.Now
	}
	t.Spent, t.SpentKey = tx.Now, ""
	return tx.putToken(t)
}

// putToken replaces a token. It returns false if the stored token is spent.
func (tx *Tx) putToken(t *Token) (bool, error) {
	mac, err := tx.code("tokens", t.row()...)
	if err != nil {
		return false, err
	}
	return tx.changed(`UPDATE tokens SET expires = $2, spent = $3, spent_key = $4, mac = $5 WHERE id = $1 AND spent = 0`,
		t.ID, sqldb.Micros(t.Expires), sqldb.Micros(t.Spent), t.SpentKey, mac)
}
