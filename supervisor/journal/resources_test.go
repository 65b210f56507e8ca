package journal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/supervisor/journal"
)

// TestManyAreAskedForAsOneIs reads more resources than fit into one query, and each one separately.
func TestManyAreAskedForAsOneIs(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		const n = 250
		names := make([]string, n)
		began := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
		write(t, j, func(tx *journal.Tx) error {
			for i := range names {
				names[i] = fmt.Sprintf("v%03d", i)
				id := writ.ResourceID{Project: "p", Kind: writ.KindVolume, Name: names[i]}
				if i%3 == 0 {
					if err := tx.PutResource(&journal.Resource{Resource: writ.Resource{ResourceID: id, Node: "n"}}); err != nil {
						return err
					}
				}
				if i%5 != 0 {
					continue
				}
				for k, run := range []writ.RunID{"later", "own", "first"} { // the first one planned its call before the others
					if err := accept(tx, run); err != nil {
						return err
					}
					c := aCall(run, i+1)
					c.Name, c.Claimed, c.Planned = names[i], true, began.Add(time.Duration(-k)*time.Second)
					if err := tx.PutCall(c); err != nil {
						return err
					}
				}
			}
			return nil
		})
		err := j.Read(t.Context(), func(tx *journal.Tx) error {
			there, err := tx.ResourcesNamed("p", writ.KindVolume, names)
			if err != nil {
				return err
			}
			open, err := tx.OpenCallsOn("p", writ.KindVolume, names, "own")
			if err != nil {
				return err
			}
			for i, name := range names {
				id := writ.ResourceID{Project: "p", Kind: writ.KindVolume, Name: name}
				one, err := tx.Resource(id)
				if err != nil {
					return err
				}
				if diff := cmp.Diff(one, there[name]); diff != "" || (one != nil) != (i%3 == 0) {
					t.Errorf("%s (-alone +of many):\n%s", name, diff)
				}
				run, err := tx.OpenCallOn(id, "own")
				if err != nil {
					return err
				}
				if open[name] != run || (run == "first") != (i%5 == 0) {
					t.Errorf("%s has an open call of %q asked for alone, of %q of many", name, run, open[name])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
