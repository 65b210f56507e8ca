package journal_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

// A journal of the previous version has no holds, and stores new ones.
func TestHoldsAreKept(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		on(t, path, ofVersion(t, "0018"))
		j := open(t, path)
		read := func(want identity.Holds, newest int64) {
			t.Helper()
			err := j.Read(t.Context(), func(tx *journal.Tx) error {
				all, revision, err := tx.Holds()
				if diff := cmp.Diff(want, all); diff != "" || revision != newest {
					t.Errorf("at revision %d, want %d; kept is (-want +got):\n%s", revision, newest, diff)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		read(nil, 0)
		held := identity.Holds{
			{Scope: identity.Scope{Project: "p", Deployment: "web"}, ProjectName: "shop", Held: true, Revision: 2, ByOperator: true,
				Decided: []writ.Decision{{Decision: "hold", Signer: "alice", Reason: "why", Time: time.UnixMicro(1795000000000000).UTC()}}},
			{Scope: identity.Scope{Operation: "machine"}, Revision: 4},
		}
		for _, all := range []identity.Holds{held, held[:1]} {
			write(t, j, func(tx *journal.Tx) error { return tx.PutHolds(all, 4) })
			read(all, 4)
		}
	})
}
