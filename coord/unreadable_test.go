package coord

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"writ/coord/api"
	"writ/ledger/sqlstore"
)

// A submission in the ledger that cannot be read shows the error at its run; the later ones are delivered.
func TestUnreadableSubmissionStopsNoDelivery(t *testing.T) {
	for name, spoil := range map[string]string{
		"reason": `UPDATE submissions SET failure = '{' WHERE run = $1`,
		"digest": `UPDATE submissions SET payload = 'none' WHERE run = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			store, err := sqlstore.Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			p := start(t, func(c *Config) { c.Ledger = store })
			bad, err := p.submit(signedScript(t, payload()))
			if err != nil {
				t.Fatal(err)
			}
			next, err := p.submit(signedScript(t, payload()))
			if err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.ExecContext(t.Context(), spoil, string(bad.Run)); err != nil {
				t.Fatal(err)
			}
			connect(p, vienna, nil)
			p.await("delivered", func() bool { return p.run(next.Run).State == api.RunStateAccepted })
			if run := p.run(bad.Run); run.State != api.RunStateWaiting || !strings.Contains(run.Reason, "cannot read its row") {
				t.Errorf("the unreadable one: %s, %q", run.State, run.Reason)
			}
		})
	}
}
