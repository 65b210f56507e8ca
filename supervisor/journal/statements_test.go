package journal

import (
	"testing"
	"time"

	"writ"
)

// One signer fills no journal: of refusals the newest are kept, and no statement too many is taken. Others do not notice.
func TestWhatIsKeptOfASignerIsBounded(t *testing.T) {
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
		mustWrite(t, j, func(tx *Tx) error { return tx.AddRefusal(text("one more", "alice"), []byte("answer")) })
		if rows, _ := kept("refusals", "alice"); rows != MaxRefusals {
			t.Errorf("%d refusals of alice are kept", rows)
		}
		err = j.Read(t.Context(), func(tx *Tx) error {
			for name, want := range map[string]bool{"one more": true, "of bob": true} {
				if a, err := tx.Refusal(writ.DigestOf([]byte(name))); (a != nil) != want || err != nil {
					t.Errorf("%s: %q, %v", name, a, err)
				}
			}
			var oldest int
			err := tx.QueryRowContext(tx.ctx, `SELECT MIN(refused) FROM refusals WHERE signer = 'alice'`).Scan(&oldest)
			if oldest != 2 {
				t.Errorf("the oldest that is kept is number %d", oldest)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		mustWrite(t, j, func(tx *Tx) error {
			return tx.AddRefusal(text("a long one", "alice"), make([]byte, MaxRefusalBytes-10))
		})
		if rows, bytes := kept("refusals", "alice"); rows > 10 || bytes > MaxRefusalBytes {
			t.Errorf("%d refusals of alice with %d bytes are kept", rows, bytes)
		}

		err = j.Write(t.Context(), func(tx *Tx) error { return tx.AddStatement(text("one more", "carol"), []byte("answer")) })
		if err != ErrRefused {
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
