package journal

import (
	"database/sql"
	"errors"
	"time"

	"writ"
	"writ/internal/sqldb"
)

// Limits per signer. A stored statement is evidence and makes a repeat harmless; a stored refusal ensures that its text
// is never accepted. So the journal deletes neither before the text has expired, and stores no more at the limits.
const (
	MaxStatements     = 10_000
	MaxStatementBytes = 64 << 20
	MaxRefusals       = 10_000
	MaxRefusalBytes   = 16 << 20
)

// ErrRefused means that a text was refused before and therefore must not be carried out.
var ErrRefused = errors.New("the text was refused before")

// Text is a signed text that has an answer.
type Text struct {
	Digest  writ.Digest
	Signer  string
	Signed  []byte
	Expires time.Time
}

// AddStatement stores a statement that was carried out, with its answer, until it expires. It returns RATE_LIMITED if
// its signer has too many stored statements, and ErrRefused if the text was refused before.
func (tx *Tx) AddStatement(t Text, answer []byte) error {
	if refused, err := tx.isRefused(t.Digest); err != nil {
		return err
	} else if refused {
		return ErrRefused
	}
	size := len(t.Signed) + len(answer)
	if err := tx.roomFor("statements", t.Signer, size, MaxStatements, MaxStatementBytes); err != nil {
		return err
	}
	mac, err := tx.code("statements", t.Digest.String(), answer, sqldb.Micros(t.Expires))
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO statements (digest, signed, answer, expires, signer, size, mac) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		t.Digest.String(), t.Signed, answer, sqldb.Micros(t.Expires), t.Signer, size, mac)
}

// ReplaceAnswer replaces the answer to a statement that was first carried out in part and now completely.
func (tx *Tx) ReplaceAnswer(t Text, answer []byte) error {
	mac, err := tx.code("statements", t.Digest.String(), answer, sqldb.Micros(t.Expires))
	if err != nil {
		return err
	}
	return tx.exec(`UPDATE statements SET answer = $2, size = $3, mac = $4 WHERE digest = $1`, t.Digest.String(), answer,
		len(t.Signed)+len(answer), mac)
}

// StatementAnswer returns the answer to a statement that was carried out, or nil.
func (tx *Tx) StatementAnswer(digest writ.Digest) ([]byte, error) {
	return tx.answer("statements", digest)
}

// AddRefusal stores the answer to a refused text, without the text, until the text expires. It returns RATE_LIMITED if
// the signer has too many stored refusals. The refusal is then not permanent, and the caller must not report it as
// such.
func (tx *Tx) AddRefusal(t Text, answer []byte) error {
	if err := tx.roomFor("refusals", t.Signer, len(answer), MaxRefusals, MaxRefusalBytes); err != nil {
		return err
	}
	mac, err := tx.code("refusals", t.Digest.String(), answer, sqldb.Micros(t.Expires))
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO refusals (digest, answer, expires, signer, size, refused, mac) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		t.Digest.String(), answer, sqldb.Micros(t.Expires), t.Signer, len(answer), sqldb.Micros(tx.Now), mac)
}

// roomFor returns RATE_LIMITED if another row of a signer would exceed the limits of the table.
func (tx *Tx) roomFor(table, signer string, size, most, mostBytes int) error {
	have, bytes, err := tx.keptOf(table, signer)
	if err != nil || have < most && bytes+size <= mostBytes {
		return err
	}
	return writ.Errorf(writ.CodeRateLimited,
		"this datacenter already stores %d %s (%d KiB) of %s; the limit per signer is %d (%d KiB)",
		have, table, bytes>>10, signer, most, mostBytes>>10).
		WithHint("each is stored until a day after its expiry; wait, or let another person sign")
}

// Refusal returns the answer to a text that was refused, or nil.
func (tx *Tx) Refusal(digest writ.Digest) ([]byte, error) { return tx.answer("refusals", digest) }

// answer returns the answer to a text from table, which is statements or refusals.
func (tx *Tx) answer(table string, digest writ.Digest) ([]byte, error) {
	var answer, mac []byte
	var expires int64
	err := tx.QueryRowContext(tx.ctx, `SELECT answer, expires, mac FROM `+table+` WHERE digest = $1`,
		digest.String()).Scan(
		&answer, &expires, &mac)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = tx.check(table, mac, digest.String(), answer, expires)
	}
	return answer, err
}

// isRefused reports whether a text was refused, with any answer.
func (tx *Tx) isRefused(digest writ.Digest) (bool, error) {
	n, err := sqldb.First[int](tx.QueryRowContext(tx.ctx, `SELECT COUNT(*) FROM refusals WHERE digest = $1`,
		digest.String()))
	return n > 0, err
}

// keptOf returns the number and size of a signer's rows in table, which is statements or refusals.
func (tx *Tx) keptOf(table, signer string) (rows, bytes int, err error) {
	err = tx.QueryRowContext(tx.ctx,
		`SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM `+table+` WHERE signer = $1`, signer).
		Scan(&rows, &bytes)
	return rows, bytes, err
}

// forgetAnswers deletes some of the statements and refusals that expired long ago.
func (tx *Tx) forgetAnswers(now time.Time) (gone int64, err error) {
	for _, table := range []string{"statements", "refusals"} {
		n, err := tx.affected(`DELETE FROM `+table+` WHERE digest IN (SELECT digest FROM `+table+
			` WHERE expires < $1 LIMIT $2)`,
			sqldb.Micros(now.Add(-ReplayKept)), forgetRows)
		gone += n
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}
