package journal

import (
	"database/sql"
	"errors"
	"time"

	"writ/identity/envelope"
	"writ/internal/sqldb"
)

// Token is the stored form of a join token. It does not contain the secret.
type Token struct {
	ID        string
	Key       []byte // verifies proofs of the token, but cannot create one
	CreatedBy string
	Expires   time.Time
	Uses      int       // number of nodes that it admits; 0 in a new token means 1
	Used      int       // number of nodes that it has admitted
	Spent     time.Time // time of its last admission or revocation; zero while it is usable
	SpentKey  string    // ID of the key that the token admitted last; "" if revoked
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

// tokens returns the tokens that the end of a query, `where`, selects. It skips a token if passOver returns true for
// its error.
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

// useToken counts a use of a token for several nodes. It returns false if the token has no use left.
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

// BootToken is the stored form of a boot server's token. It does not contain the secret.
type BootToken struct {
	ID        string    `json:"id"`
	Key       []byte    `json:"key"` // verifies proofs of the token
	CreatedBy string    `json:"created_by"`
	Expires   time.Time `json:"expires"` // from its creator, or the time of revocation
	Revoked   time.Time `json:"revoked,omitzero"`
}

// Ended reports whether the token is revoked or has expired.
func (t *BootToken) Ended(now time.Time) bool { return !t.Revoked.IsZero() || !t.Expires.After(now) }

// AddBootToken stores a new token. An existing token is not changed.
func (tx *Tx) AddBootToken(t *BootToken) error {
	if known, err := tx.BootToken(t.ID); known != nil || err != nil {
		return err
	}
	return tx.putBootToken(t)
}

// RevokeBootToken revokes a token. The revocation stays in force if the clock goes back.
func (tx *Tx) RevokeBootToken(t *BootToken) error {
	if t.Ended(tx.Now) {
		return nil
	}
	ended := *t
	ended.Revoked, ended.Expires = tx.Now, tx.Now
	return tx.putBootToken(&ended)
}

func (tx *Tx) putBootToken(t *BootToken) error {
	body, err := encode(tx, "boot_tokens", t, t.ID)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO boot_tokens (id, expires, body) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET expires = excluded.expires, body = excluded.body`, t.ID, sqldb.Micros(t.Expires), body)
}

// BootToken returns a token, or nil if it is unknown.
func (tx *Tx) BootToken(id string) (*BootToken, error) {
	return get[BootToken](tx, "boot_tokens", `SELECT body FROM boot_tokens WHERE id = $1`, id)
}

// BootTokens lists tokens, the latest expiry first. most limits their number.
func (tx *Tx) BootTokens(most int) ([]*BootToken, error) {
	return list[BootToken](tx, "boot_tokens", `SELECT id, body FROM boot_tokens ORDER BY expires DESC, id LIMIT $1`, most)
}
