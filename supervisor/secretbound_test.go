package supervisor_test

import (
	"errors"
	"fmt"
	"testing"

	"writ"
	"writ/supervisor/journal"
)

func TestSecretsOfAProjectAreBounded(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.set("db-password", 1, canary)
		const most = 1000
		add := func(project writ.ProjectID, n int, of func(i int) (name string, version int)) {
			err := s.journal.Write(t.Context(), func(tx *journal.Tx) (err error) {
				for i := range n {
					v := writ.Secret{Project: project, Set: tx.Now}
					v.Name, v.Version = of(i)
					err = errors.Join(err, tx.AddSecret(&journal.Secret{Secret: v, Ciphertext: []byte{1}}))
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		add(theProject, most-1, func(i int) (string, int) { return "old", i + 1 })
		set := func(name string, version int) error {
			_, err := s.Decide(t.Context(), s.sign(s.change(name, version, canary)))
			return err
		}
		if err := set("db-password", 2); writ.CodeOf(err) != writ.CodeQuotaExceeded {
			t.Errorf("version %d of the project: %v, want QUOTA_EXCEEDED", most+1, err)
		}
		if _, err := s.Decide(t.Context(), s.sign(s.change("old", most-1, ""))); err != nil {
			t.Fatal(err)
		}
		if err := set("db-password", 2); err != nil {
			t.Errorf("new version after a removal: %v", err)
		}
		s.wantVersions("db-password", 2)
		if err := set("old", 1); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("removed version again: %v, want CONFLICT", err)
		}
		if err := set("old", most); err != nil {
			t.Errorf("next version of a secret without stored versions: %v", err)
		}
		add("another", most, func(i int) (string, int) { return fmt.Sprint("name-", i), 1 })
		if err := set("db-password", 3); err != nil {
			t.Errorf("next to a full project: %v", err)
		}
	})
}
