package journal

import (
	"database/sql"
	"errors"
	"time"

	"writ"
	"writ/internal/sqldb"
)

// What a journal keeps of one signer. Statements are evidence and make repeats harmless, and nothing accepts a text whose refusal is here: so one
// too many is not taken, and none makes room before its text has expired.
const (
	MaxStatements     = 10_000
	MaxStatementBytes = 64 << 20
	MaxRefusals       = 10_000
	MaxRefusalBytes   = 16 << 20
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

// ReplaceAnswer keeps another answer to a statement that was carried out in part, now that all of it was.
func (tx *Tx) ReplaceAnswer(t Text, answer []byte) error {
	mac, err := tx.code("statements", t.Digest.String(), answer, sqldb.Micros(t.Expires))
	if err != nil {
		return err
	}
	return tx.exec(`UPDATE statements SET answer = $2, size = $3, mac = $4 WHERE digest = $1`, t.Digest.String(), answer, len(t.Signed)+len(answer), mac)
}

// StatementAnswer returns the answer to a statement that was carried out before, nil if it was not.
func (tx *Tx) StatementAnswer(digest writ.Digest) ([]byte, error) {
	return tx.answer("statements", digest)
}

// AddRefusal keeps the answer to a text that was refused, but not the text, until that expires. It is RATE_LIMITED if its signer has too many of
// them here: then the text is not refused for good, and nobody may be told so.
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

// roomFor reports whether one of the two tables may have another row of a signer.
func (tx *Tx) roomFor(table, signer string, size, most, mostBytes int) error {
	have, bytes, err := tx.keptOf(table, signer)
	if err != nil || have < most && bytes+size <= mostBytes {
		return err
	}
	return writ.Errorf(writ.CodeRateLimited, "this datacenter keeps %d %s (%d KiB) of %s already, of %d (%d KiB) that it keeps of one signer",
		have, table, bytes>>10, signer, most, mostBytes>>10).
		WithHint("each is kept until a day after what was signed expires; wait, or let another person sign")
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
