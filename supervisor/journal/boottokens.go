package journal

import (
	"fmt"
	"time"

	"writ/internal/cbor"
	"writ/internal/sqldb"
)

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
	body, err := cbor.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode the token of a boot server: %w", err)
	}
	if body, err = tx.withCode("boot_tokens", body, t.ID); err != nil {
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
