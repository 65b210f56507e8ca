package sqldb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"writ"
	"writ/internal/test/testenv"
)

// A database that an operator has to change first is rejected with the reason and the remedy.
func TestUnusableDatabaseIsExplained(t *testing.T) {
	own := testenv.Postgres(t)
	prepared := own.Store()
	if err := open(t, prepared).Close(); err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(prepared, "search_path=")
	own.SQL("CREATE ROLE weak LOGIN; CREATE ROLE locked; GRANT USAGE ON SCHEMA " + tables + " TO weak;" +
		"CREATE ROLE reads LOGIN SUPERUSER; ALTER ROLE reads SET default_transaction_read_only = on; CREATE SCHEMA reads;" +
		"CREATE ROLE one LOGIN CONNECTION LIMIT 1; CREATE SCHEMA one AUTHORIZATION one")
	for _, database := range []string{
		"private", "closed ALLOW_CONNECTIONS false", "ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'",
		"icu TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'de' LOCALE 'C.UTF-8'",
	} {
		own.SQL("CREATE DATABASE " + database)
	}
	own.SQL("REVOKE CONNECT ON DATABASE private FROM public")
	as := func(role, database, more string) string {
		return strings.Replace(own.URL(database), "writ@", role+"@", 1) + more
	}
	for _, tt := range []struct {
		name, path string
		code       writ.Code
		says, hint string
	}{
		{"no right to create", as("weak", "postgres", ""), writ.CodeUsage, "permission denied", "OWNER TO"},
		{"tables of another role", as("weak", "postgres", "&search_path="+tables), writ.CodeUsage, "permission denied", "OWNER TO"},
		{"no right to connect", as("weak", "private", ""), writ.CodeUsage, "permission denied", "OWNER TO"},
		{"no right to log in", as("locked", "postgres", ""), writ.CodeUsage, "rejected the login", "LOGIN"},
		{"missing schema", as("writ", "postgres", "&search_path=nowhere"), writ.CodeUsage, "search_path", "create the schema"},
		{"closed database", as("writ", "closed", ""), writ.CodeUsage, "no connections", "ALLOW_CONNECTIONS"},
		{"unknown setting", as("writ", "postgres", "&lock_time=5"), writ.CodeUsage, "lock_time", "PostgreSQL 15"},
		{"invalid setting", as("writ", "postgres", "&work_mem=x"), writ.CodeUsage, "work_mem", "parameters in the address"},
		{"no encoding", as("writ", "ascii", ""), writ.CodeUsage, "SQL_ASCII", "createdb"},
		{"order of a language", as("writ", "icu", ""), writ.CodeUsage, "ICU for de", "createdb"},
		{"address of a standby", as("writ", "postgres", "&target_session_attrs=standby"), writ.CodeUsage, "rejects writes", "read-write"},
		{"replication", as("writ", "postgres", "&replication=database"), writ.CodeUsage, "replication=database", "remove"},
		{"read-only role", as("reads", "postgres", "&search_path=reads"), writ.CodeStoreReadOnly, "read-only transaction", "role"},
		{"one connection", as("one", "postgres", "&search_path=one"), writ.CodeStoreUnavailable, "no more connections", "CONNECTION LIMIT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db, err := Open(t.Context(), tt.path, schema)
			if err == nil {
				db.Close()
				t.Fatal("the store was opened")
			}
			e := writ.AsError(err)
			if e.Code != tt.code || !strings.Contains(err.Error(), tt.says) || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("got %v (%s, hint %q); want %s, %q and %q", err, e.Code, e.Hint, tt.code, tt.says, tt.hint)
			}
		})
	}
	t.Run("rights revoked later", func(t *testing.T) {
		own.SQL("CREATE SCHEMA weak AUTHORIZATION weak")
		db := open(t, as("weak", "postgres", "&search_path=weak"))
		own.SQL("ALTER TABLE weak.things OWNER TO writ")
		err := db.Write(t.Context(), insert("a"))
		if e := writ.AsError(err); e.Code != writ.CodeStoreUnavailable || !strings.Contains(e.Hint, "OWNER TO") {
			t.Errorf("%v (hint %q)", err, e.Hint)
		}
		own.SQL("ALTER TABLE weak.things OWNER TO weak")
		if err := db.Write(t.Context(), insert("b")); err != nil {
			t.Error(err)
		}
	})
}

// After a failover, a host of the address may be a standby. The store uses the host that accepts writes.
func TestHostThatAcceptsWritesIsUsed(t *testing.T) {
	standby := testenv.Postgres(t)
	standby.SQL("ALTER SYSTEM SET default_transaction_read_only = on")
	standby.SQL("SELECT pg_reload_conf()")
	for standby.SQL("SHOW default_transaction_read_only") != "on" {
		time.Sleep(10 * time.Millisecond)
	}
	primary := server.Store(t)
	db := open(t, strings.Replace(primary, "writ@", "writ@"+standby.Addr+",", 1))
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Error(err)
	}
	reads, err := OpenToRead(t.Context(), primary+"&target_session_attrs=read-write", schema)
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	if diff := cmp.Diff([]string{"a"}, names(t, reads)); diff != "" {
		t.Error(diff)
	}
	_, port, _ := strings.Cut(standby.Addr, ":")
	_, err = Open(t.Context(), fmt.Sprintf("postgres://writ@127.0.0.1:%s,localhost:%[1]s/postgres?sslmode=disable", port), schema)
	if e := writ.AsError(err); e.Code != writ.CodeStoreReadOnly || !strings.Contains(e.Hint, "promote") {
		t.Errorf("no host accepts writes: %v (hint %q)", err, e.Hint)
	}
}

func TestTextsAreOrderedByBytes(t *testing.T) {
	for _, tt := range []struct {
		order textOrder
		want  bool
	}{
		{textOrder{collate: "C", provider: "c"}, true},
		{textOrder{collate: "C.utf8", provider: "c"}, true},
		{textOrder{collate: "en_US.UTF-8", provider: "c"}, false},
		{textOrder{collate: "C.UTF-8", provider: "i", locale: "de"}, false},
		{textOrder{collate: "en_US.UTF-8", provider: "b", locale: "C.UTF-8"}, true},
		{textOrder{collate: "C", provider: "x"}, false},
	} {
		if got := tt.order.byBytes(); got != tt.want {
			t.Errorf("%+v: %v", tt.order, got)
		}
	}
}

func TestOldPostgreSQLIsExplained(t *testing.T) {
	e := writ.AsError(connectError(&pgconn.PgError{
		Code: "42704", Message: `unrecognized configuration parameter "client_connection_check_interval"`,
	}))
	if e.Code != writ.CodeUsage || !strings.Contains(e.Hint, "PostgreSQL 15 or later") {
		t.Errorf("%v (%s, hint %q)", e, e.Code, e.Hint)
	}
}

func TestLastSessionAttributesCount(t *testing.T) {
	t.Setenv("PGTARGETSESSIONATTRS", "standby")
	for address, want := range map[string]string{
		"postgres:///x":                          "standby",
		"postgres:///x?target_session_attrs=any": "any",
		"postgresql://a:1,b:2/x?target_session_attrs=any&target_session_attrs=primary": "primary",
	} {
		if got := sessionAttributes(address); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
