package journal

import (
	"errors"
	"testing"
	"time"

	"writ"
)

// A single signer cannot fill a journal: excess statements and refusals are rejected, and they evict none. Other
// signers are not affected.
//
// Promise: Signatures and rosters: A signer cannot fill a journal or ledger with statements or refused texts.
// How: A signer has 10,000 refusals in 16 MiB and 10,000 statements in 64 MiB, then `RATE_LIMITED`; a ledger keeps
// 1,000 refused or expired submissions per signer.
// Also: TestOldRejectedSubmissionsAreDeleted.
func TestRecordsOfASignerAreBounded(t *testing.T) {
	bothEngines(t, func(t *testing.T, path string) {
		j, err := openProtected(t, path, Protection{Key: theKey})
		if err != nil {
			t.Fatal(err)
		}
		text := func(name, signer string) Text {
			return Text{Digest: writ.DigestOf([]byte(name)), Signer: signer, Signed: []byte("signed"), Expires: time.Now().Add(time.Hour)}
		}
		kept := func(table, signer string) (rows, bytes int) {
			err := j.Read(t.Context(), func(tx *Tx) (err error) { rows, bytes, err = tx.keptOf(table, signer); return err })
			if err != nil {
				t.Fatal(err)
			}
			return rows, bytes
		}
		mustWrite(t, j, func(tx *Tx) error {
			if err := tx.AddRefusal(text("of bob", "bob"), []byte("answer")); err != nil {
				return err
			}
			const numbers = ` WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) `
			err := tx.exec(`INSERT INTO refusals (digest, refused, answer, expires, signer, size)`+numbers+`SELECT 'x' || i, i, $2, 0, 'alice', 1 FROM n`,
				MaxRefusals, []byte{})
			if err != nil {
				return err
			}
			return tx.exec(`INSERT INTO statements (digest, signed, answer, expires, signer, size)`+numbers+`SELECT 'x' || i, $2, $2, 0, 'alice', 1 FROM n`,
				MaxStatements, []byte{})
		})
		refuse := func(refused Text, answer []byte) error {
			return j.Write(t.Context(), func(tx *Tx) error { return tx.AddRefusal(refused, answer) })
		}
		if err := refuse(text("one more", "alice"), []byte("answer")); writ.CodeOf(err) != writ.CodeRateLimited {
			t.Errorf("a refusal too many: %v", err)
		}
		for signer, want := range map[string]int{"alice": MaxRefusals, "bob": 1} {
			if rows, _ := kept("refusals", signer); rows != want {
				t.Errorf("%d refusals of %s are kept, want %d", rows, signer, want)
			}
		}
		if err := refuse(text("a long one", "carol"), make([]byte, MaxRefusalBytes+1)); writ.CodeOf(err) != writ.CodeRateLimited {
			t.Errorf("bytes too many: %v", err)
		}
		if err := refuse(text("refused", "carol"), []byte("answer")); err != nil {
			t.Errorf("refusal of another signer: %v", err)
		}

		err = j.Write(t.Context(), func(tx *Tx) error { return tx.AddStatement(text("refused", "carol"), []byte("answer")) })
		if !errors.Is(err, ErrRefused) {
			t.Errorf("a statement that was refused is kept: %v", err)
		}
		err = j.Write(t.Context(), func(tx *Tx) error { return tx.AddStatement(text("statement", "alice"), []byte("answer")) })
		if writ.CodeOf(err) != writ.CodeRateLimited {
			t.Errorf("a statement too many: %v", err)
		}
		large := text("large", "carol")
		large.Signed = make([]byte, MaxStatementBytes+1)
		if err := j.Write(t.Context(), func(tx *Tx) error { return tx.AddStatement(large, nil) }); writ.CodeOf(err) != writ.CodeRateLimited {
			t.Errorf("bytes too many: %v", err)
		}
		mustWrite(t, j, func(tx *Tx) error { return tx.AddStatement(text("of carol", "carol"), []byte("answer")) })
	})
}
