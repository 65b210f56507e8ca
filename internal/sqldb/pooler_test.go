package sqldb

import (
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
)

// sessionParameters are the settings that writ sends at the start of a session and that PgBouncer rejects by default.
const sessionParameters = "lock_timeout,statement_timeout,idle_in_transaction_session_timeout,synchronous_commit,jit,client_connection_check_interval," +
	"extra_float_digits,default_transaction_read_only,search_path"

func TestPoolerIsRefused(t *testing.T) {
	own := testenv.Postgres(t)
	ignore := "ignore_startup_parameters = " + sessionParameters
	applied := "[databases]\npostgres = host=127.0.0.1 port=" + own.Addr[strings.LastIndex(own.Addr, ":")+1:] +
		" user=writ connect_query='SET lock_timeout = ''10s''; SET client_connection_check_interval = ''1s'''"
	for _, c := range []struct {
		name, mode string
		settings   []string
		want       string
	}{
		{"refuses settings", "?sslmode=prefer", []string{"pool_mode = transaction"}, "refuses the settings of a session"},
		{"refuses settings without TLS", "?sslmode=disable", []string{"pool_mode = transaction"}, "refuses the settings of a session"},
		{"ignores settings", "?sslmode=prefer", []string{"pool_mode = transaction", ignore}, "ignores the settings of a session"},
		{"ignores settings by session", "?sslmode=disable", []string{"pool_mode = session", ignore}, "ignores the settings of a session"},
		{"shares connections", "?sslmode=disable", []string{"pool_mode = transaction", ignore, applied}, "seen in another"},
		{"shares statements", "?sslmode=disable", []string{"pool_mode = statement", ignore, applied}, "does not support transactions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := own.Pooler(t, c.settings...) + c.mode
			db, err := Open(t.Context(), address, schema)
			if err == nil {
				db.Close()
				t.Fatal("the store was opened behind a pooler")
			}
			if e := writ.AsError(err); e.Code != writ.CodeUsage || !strings.Contains(err.Error(), c.want) || !strings.Contains(e.Hint, "server itself") {
				t.Errorf("%v (%s, hint %q), want %q", err, e.Code, e.Hint, c.want)
			}
			if db, err := OpenToRead(t.Context(), address, schema); err == nil {
				db.Close()
				t.Error("the store was opened to read behind a pooler")
			}
		})
	}
	t.Run("sends reads to a standby", func(t *testing.T) {
		db, err := Open(t.Context(), own.Pgpool(t)+"?sslmode=disable", schema)
		if err == nil {
			db.Close()
			t.Fatal("the store was opened behind Pgpool-II")
		}
		if e := writ.AsError(err); e.Code != writ.CodeUsage || !strings.Contains(err.Error(), "Pgpool-II") {
			t.Errorf("%v (%s, hint %q)", err, e.Code, e.Hint)
		}
	})
}
