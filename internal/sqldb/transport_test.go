package sqldb

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"writ"
	"writ/internal/test/testenv"
)

// nothingIsHere makes the loopback addresses of a test count as another machine.
func nothingIsHere(string) bool { return false }

// refusedAtOnce checks that an address is rejected with a hint before any connection.
func refusedAtOnce(t *testing.T, local localHosts, address string) {
	t.Helper()
	db, err := openAs(t.Context(), local, address, schema, nil)
	if err == nil {
		db.Close()
		t.Errorf("%s is taken", address)
		return
	}
	e := writ.AsError(err)
	if e.Code != writ.CodeUsage || !strings.Contains(err.Error(), "not on this machine") || !strings.Contains(e.Hint, "sslmode=verify-full") {
		t.Errorf("%s: %v (%s, hint %q)", address, err, e.Code, e.Hint)
	}
}

// countedListener starts a listener that counts connections and never sends.
func countedListener(t *testing.T) (address string, came *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came = new(atomic.Int64)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return l.Addr().String(), came
}

// Promise: Failures: A network attacker can neither read nor change the data between a daemon and a remote
// PostgreSQL.
// How: `sslmode=verify-full` and TLS 1.3 are required for each host of the parsed address, with fallbacks; otherwise
// the daemon refuses to connect.
// Also: TestEachHostOfAnAddressMustBeHereOrVerified, TestLocalhostIsThisMachine,
// TestPostgreSQLIsTrustedByItsCertificateOnly, TestNeitherJournalNorLedgerIsReachedUnverifiedOnAnotherMachine.
func TestRemotePostgreSQLNeedsVerifiedTLS(t *testing.T) {
	address, came := countedListener(t)
	host, port, _ := net.SplitHostPort(address)
	dir := t.TempDir()
	ca := testenv.NewAuthority(t).CA
	service := filepath.Join(dir, "services")
	if err := os.WriteFile(service, []byte("[plain]\nhost="+host+"\nport="+port+"\nsslmode=disable\n[tls]\nhost="+host+"\nport="+port+"\nsslmode=require\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := "postgres://writ@" + address + "/x?sslmode=verify-full&sslrootcert=" + url.QueryEscape(ca)
	for _, refused := range []string{
		"postgres://writ@" + address + "/x", // the default is prefer
		"postgres://writ@" + address + "/x?sslmode=disable",
		"postgres://writ@" + address + "/x?sslmode=allow",
		"postgres://writ@" + address + "/x?sslmode=prefer",
		"postgres://writ@" + address + "/x?sslmode=require",
		"postgres://writ@" + address + "/x?ssl=true",
		// Equivalent to verify-ca.
		"postgres://writ@" + address + "/x?sslmode=require&sslrootcert=" + url.QueryEscape(ca),
		"postgres://writ@" + address + "/x?sslmode=verify-ca&sslrootcert=" + url.QueryEscape(ca),
		"postgres://writ@" + address + "/x?sslnegotiation=direct",
		full + "&sslmode=require", // the last value counts
		"postgres:///x?host=" + host + "&port=" + port,
		"postgres:///x?service=plain&servicefile=" + url.QueryEscape(service),
		"postgres:///x?service=tls&servicefile=" + url.QueryEscape(service),
		"postgres://writ@db.example," + address + "/x?sslmode=prefer",
	} {
		refusedAtOnce(t, nothingIsHere, refused)
	}
	for _, env := range [][2]string{{"PGSSLMODE", "require"}, {"PGSSLMODE", "disable"}, {"PGSSLMODE", ""}} {
		t.Setenv("PGHOST", host)
		t.Setenv("PGPORT", port)
		t.Setenv(env[0], env[1])
		refusedAtOnce(t, nothingIsHere, "postgres:///x")
	}
	t.Setenv("PGHOST", "")
	t.Setenv("PGSERVICEFILE", service)
	t.Setenv("PGSERVICE", "plain")
	refusedAtOnce(t, nothingIsHere, "postgres:///x")
	t.Setenv("PGSERVICE", "")
	if n := came.Load(); n != 0 {
		t.Errorf("%d connections were made although the address is refused", n)
	}
	db, err := openAs(t.Context(), nothingIsHere, full, schema, nil)
	if err == nil {
		db.Close()
		t.Fatal("nobody is there")
	}
	if writ.CodeOf(err) == writ.CodeUsage || came.Load() == 0 {
		t.Errorf("verify-full is refused: %v", err)
	}
}

// Every host of an address must be local or verified, in any order.
func TestEachHostOfAnAddressMustBeHereOrVerified(t *testing.T) {
	for _, tt := range []struct {
		address string
		want    bool
	}{
		{"postgres://127.0.0.1/x", true},
		{"postgres://[::1]/x?sslmode=disable", true},
		{"postgres://localhost/x", true},
		{"postgres:///x?host=/run/postgresql", true},
		{"postgres:///x?host=/run/postgresql,127.0.0.1", true},
		{"postgres://127.0.0.1,10.0.0.1/x", false},
		{"postgres://10.0.0.1,127.0.0.1/x", false},
		{"postgres:///x?host=/run/postgresql,db.example", false},
		{"postgres://127.0.0.1,db.example/x?sslmode=verify-full", true},
		{"postgres://0.0.0.0/x", false},
		{"postgres://127.0.0.1.example/x", false},
		{"postgres://localhost.example/x", false},
		{"postgres://2130706433/x", false},
		{"postgres://localhost/x?hostaddr=10.0.0.1", false},
		{"postgres://db.example/x?sslmode=verify-full&hostaddr=10.0.0.1", false},
		{"postgres://db.example/x?sslrootcert=system", true}, // equivalent to verify-full
		{"postgres://db.example/x?sslmode=verify-full&sslsni=0", true},
	} {
		config, err := pgx.ParseConfig(tt.address)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkTransport(config, onThisMachine); (err == nil) != tt.want {
			t.Errorf("%s: %v", tt.address, err)
		}
	}
}

// A name server must not define the addresses of localhost.
func TestLocalhostIsThisMachine(t *testing.T) {
	for answer, want := range map[string]int{"10.0.0.1": 0, "127.0.0.1": 1, "::1": 1, "10.0.0.1 127.0.0.1": 1} {
		config, err := pgx.ParseConfig("postgres://localhost/x?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		config.LookupFunc = lookUp(strings.Fields(answer))
		if err := checkTransport(config, onThisMachine); err != nil {
			t.Fatal(err)
		}
		found, err := config.LookupFunc(t.Context(), "localhost")
		if len(found) != want || (err == nil) != (want > 0) {
			t.Errorf("localhost as %s: %v, %v", answer, found, err)
		}
		if found, _ := config.LookupFunc(t.Context(), "db.example"); len(found) != len(strings.Fields(answer)) {
			t.Errorf("another name as %s: %v", answer, found)
		}
	}
}

func TestPostgreSQLIsTrustedByItsCertificateOnly(t *testing.T) {
	own := testenv.Postgres(t)
	ours, strange := testenv.NewAuthority(t), testenv.NewAuthority(t)
	at := func(ca, host string) string {
		store, err := url.Parse(own.Store())
		if err != nil {
			t.Fatal(err)
		}
		query := store.Query()
		query.Set("sslmode", "verify-full")
		query.Set("sslrootcert", ca)
		store.RawQuery, store.Host = query.Encode(), strings.Replace(store.Host, "127.0.0.1", host, 1)
		return store.String()
	}
	refused := func(name, address, hint string) {
		t.Helper()
		db, err := openAs(t.Context(), nothingIsHere, address, schema, nil)
		if err == nil {
			db.Close()
			t.Errorf("%s: it is trusted", name)
			return
		}
		if e := writ.AsError(err); e.Code != writ.CodeStoreUnavailable || !strings.Contains(err.Error(), "not trusted") || !strings.Contains(e.Hint, hint) {
			t.Errorf("%s: %v (%s, hint %q)", name, err, e.Code, e.Hint)
		}
	}
	refused("no TLS there", at(ours.CA, "127.0.0.1"), "ssl = on")
	own.UseTLS(ours.Issue("127.0.0.1", time.Now().Add(-time.Hour)))
	refused("expired", at(ours.CA, "127.0.0.1"), "renew")
	certificate, key := ours.Issue("127.0.0.1", time.Now().Add(time.Hour))
	own.UseTLS(certificate, key, "ssl_max_protocol_version=TLSv1.2")
	refused("an older TLS", at(ours.CA, "127.0.0.1"), "ssl_max_protocol_version")
	own.UseTLS(certificate, key)
	refused("signed by another authority", at(strange.CA, "127.0.0.1"), "sslrootcert")
	refused("another name", at(ours.CA, "localhost"), "name")

	db, err := openAs(t.Context(), nothingIsHere, at(ours.CA, "127.0.0.1"), schema, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Error(err)
	}
	if got := own.SQL("SELECT COUNT(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'writ'"); got != "0" {
		t.Errorf("%s connections are without TLS", got)
	}
}

// lookUp is a name server that returns the same addresses for all names.
func lookUp(addresses []string) func(context.Context, string) ([]string, error) {
	return func(context.Context, string) ([]string, error) { return slices.Clone(addresses), nil }
}
