package journal

import (
	"database/sql"
	"errors"
	"time"

	"writ"
	"writ/internal/sqldb"
)

// What a journal keeps of one signer. Statements are evidence and make repeats harmless, so one too many is not taken; of refusals the oldest
// make room.
const (
	MaxStatements     = 10_000
	MaxStatementBytes = 64 << 20
	MaxRefusals       = 1_000
	MaxRefusalBytes   = 2 << 20
)

// ErrRefused is the error of keeping what was done about a text that was refused before.
var ErrRefused = errors.New("the text was refused before")

// Text is a signed text about which there is an answer.
type Text struct {
	Digest  writ.Digest
	Signer  string
	Signed  []byte
	Expires time.Time
}

// AddStatement keeps a statement that was carried out, with the answer to it, until it expires. It is RATE_LIMITED if its signer has too many of
// them here, and ErrRefused if it was refused before.
func (tx *Tx) AddStatement(t Text, answer []byte) error {
	if refused, err := tx.isRefused(t.Digest); err != nil {
		return err
	} else if refused {
		return ErrRefused
	}
	size := len(t.Signed) + len(answer)
	have, bytes, err := tx.keptOf("statements", t.Signer)
	if err != nil {
		return err
	}
	if have >= MaxStatements || bytes+size > MaxStatementBytes {
		return writ.Errorf(writ.CodeRateLimited, "%s has signed %d statements (%d KiB) that this datacenter still keeps, "+
			"of %d (%d KiB) that it keeps of one signer", t.Signer, have, bytes>>10, MaxStatements, MaxStatementBytes>>10).
			WithHint("each is kept until a day after it expires; wait, or let somebody else decide")
	}
	mac, err := tx.code("statements", t.Digest.String(), answer, sqldb.Micros(t.Expires))
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO statements (digest, signed, answer, expires, signer, size, mac) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		t.Digest.String(), t.Signed, answer, sqldb.Micros(t.Expires), t.Signer, size, mac)
}

// StatementAnswer returns the answer to a statement that was carried out before, nil if it was not.
func (tx *Tx) StatementAnswer(digest writ.Digest) ([]byte, error) {
	return tx.answer("statements", digest)
}

// AddRefusal keeps the answer to a text that was refused, but not the text, until that expires. If its signer has too many of them here the
// oldest go.
func (tx *Tx) AddRefusal(t Text, answer []byte) error {
	mac, err := tx.code("refusals", t.Digest.String(), answer, sqldb.Micros(t.Expires))
	if err != nil {
		return err
	}
	have, bytes, err := tx.keptOf("refusals", t.Signer)
	if err != nil {
		return err
	}
	for have > 0 && (have >= MaxRefusals || bytes+len(answer) > MaxRefusalBytes) {
		_, err := tx.deleted(`DELETE FROM refusals WHERE digest IN
			(SELECT digest FROM refusals WHERE signer = $1 ORDER BY refused, digest LIMIT 1)`, t.Signer)
		if err != nil {
			return err
		}
		if have, bytes, err = tx.keptOf("refusals", t.Signer); err != nil {
			return err
		}
	}
	return tx.exec(`INSERT INTO refusals (digest, answer, expires, signer, size, refused, mac) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		t.Digest.String(), answer, sqldb.Micros(t.Expires), t.Signer, len(answer), sqldb.Micros(tx.Now), mac)
}

// Refusal returns the answer to a text that was refused before, nil if it was not.
func (tx *Tx) Refusal(digest writ.Digest) ([]byte, error) { return tx.answer("refusals", digest) }

// answer returns the answer to a text from one of the two tables.
func (tx *Tx) answer(table string, digest writ.Digest) ([]byte, error) {
	var answer, mac []byte
	var expires int64
	err := tx.QueryRowContext(tx.ctx, `SELECT answer, expires, mac FROM `+table+` WHERE digest = $1`, digest.String()).Scan(&answer, &expires, &mac)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = tx.check(table, mac, digest.String(), answer, expires)
	}
	return answer, err
}

// isRefused reports whether a text was refused before, whatever the answer was.
func (tx *Tx) isRefused(digest writ.Digest) (bool, error) {
	var n int
	err := tx.QueryRowContext(tx.ctx, `SELECT COUNT(*) FROM refusals WHERE digest = $1`, digest.String()).Scan(&n)
	return n > 0, err
}

// keptOf counts what one of the two tables has of a signer.
func (tx *Tx) keptOf(table, signer string) (rows, bytes int, err error) {
	err = tx.QueryRowContext(tx.ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM `+table+` WHERE signer = $1`, signer).
		Scan(&rows, &bytes)
	return rows, bytes, err
}

// forgetAnswers deletes some of the statements and refusals that expired long ago.
func (tx *Tx) forgetAnswers(now time.Time) (gone int64, err error) {
	for _, table := range []string{"statements", "refusals"} {
		n, err := tx.deleted(`DELETE FROM `+table+` WHERE digest IN (SELECT digest FROM `+table+` WHERE expires < $1 LIMIT $2)`,
			sqldb.Micros(now.Add(-ReplayKept)), forgetRows)
		gone += n
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}
