package journal

import (
	"errors"
	"testing"

	"writ"
)

// A value that is to be removed must not stay because another program changed its row.
func TestRemovalEmptiesForgedSecrets(t *testing.T) {
	bothEngines(t, func(t *testing.T, path string) {
		j, err := openProtected(t, path, Protection{Key: theKey})
		if err != nil {
			t.Fatal(err)
		}
		value := []byte("ciphertext")
		mustWrite(t, j, func(tx *Tx) error {
			for version := 1; version <= 4; version++ {
				s := writ.Secret{Project: "p", Name: "s", Version: version, SetBy: "alice", Set: tx.Now}
				if err := tx.AddSecret(&Secret{Secret: s, Ciphertext: value, Statement: writ.DigestOf(nil)}); err != nil {
					return err
				}
			}
			return errors.Join(
				tx.exec(`UPDATE secrets SET set_by = 'mallory' WHERE version = 1`),
				tx.exec(`UPDATE secrets SET removed = 1 WHERE version = 2`),
			)
		})
		mustWrite(t, j, func(tx *Tx) error {
			n, err := tx.RemoveSecrets("p", "s", 3)
			if n != 1 {
				t.Errorf("removed %d versions, want only the unforged one", n)
			}
			return err
		})
		mustWrite(t, j, func(tx *Tx) error {
			for version := 1; version <= 4; version++ {
				var stored []byte
				row := tx.QueryRowContext(tx.ctx, `SELECT sealed FROM secrets WHERE version = $1`, version)
				if err := row.Scan(&stored); err != nil {
					return err
				}
				if kept := len(stored) > 0; kept != (version == 4) {
					t.Errorf("the value of version %d is kept: %t", version, kept)
				}
			}
			for version, want := range map[int]writ.Code{1: writ.CodeRecordForged, 3: "", 4: ""} {
				s, err := tx.Secret("p", "s", version)
				if writ.CodeOf(err) != want || (s != nil) != (version == 4) {
					t.Errorf("version %d is %v, %v", version, s, err)
				}
			}
			return nil
		})
	})
}
