package redisqueue

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// issue writes a certificate for 127.0.0.1 and its key under name, next to the authority's certificate.
func issue(t *testing.T, by *testenv.Authority, name string, until time.Time) testenv.RedisTLS {
	t.Helper()
	certificate, key := by.Issue("127.0.0.1", until)
	files := testenv.RedisTLS{CA: by.CA, Certificate: filepath.Join(filepath.Dir(by.CA), name+".pem"), Key: filepath.Join(filepath.Dir(by.CA), name+".key")}
	if err := errors.Join(os.WriteFile(files.Certificate, certificate, 0o600), os.WriteFile(files.Key, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	return files
}

// Promise: Nodes and Redis: writ sends only TLS 1.3 to a Redis on another machine and no data to a Redis without a
// trusted certificate.
// How: The CA comes from a file or the system; otherwise writ refuses the connection.
// Also: TestUnsafeServerIsRefused.
func TestTLSToRedisAuthenticatesBothSides(t *testing.T) {
	t.Parallel()
	ours, strange := testenv.NewAuthority(t), testenv.NewAuthority(t)
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	valid, expired := issue(t, ours, "client", later), issue(t, ours, "old-client", before)
	server := testenv.RedisWithTLS(t, issue(t, ours, "server", later))
	old := testenv.RedisWithTLS(t, issue(t, ours, "old-server", before))
	older := testenv.RedisWithTLS(t, issue(t, ours, "older-server", later), "--tls-protocols", "TLSv1.2")
	plain := testenv.Redis(t)

	for _, tt := range []struct {
		name   string
		server Server
		want   string // of the hint; "" if it works
	}{
		{"trusted", Server{URL: server.URL, CA: valid.CA, Certificate: valid.Certificate, Key: valid.Key}, ""},
		{"signed by another authority", Server{URL: server.URL, CA: issue(t, strange, "x", later).CA, Certificate: valid.Certificate, Key: valid.Key}, "--redis-ca"},
		{"the authorities of the system", Server{URL: server.URL, Certificate: valid.Certificate, Key: valid.Key}, "--redis-ca"},
		{"another name", Server{URL: strings.Replace(server.URL, "127.0.0.1", "localhost", 1), CA: valid.CA, Certificate: valid.Certificate, Key: valid.Key}, "name"},
		{"no certificate of ours", Server{URL: server.URL, CA: valid.CA}, "--redis-cert"},
		{"ours has expired", Server{URL: server.URL, CA: valid.CA, Certificate: expired.Certificate, Key: expired.Key}, "--redis-cert"},
		{"the certificate of Redis has expired", Server{URL: old.URL, CA: valid.CA, Certificate: valid.Certificate, Key: valid.Key}, "renew"},
		{"an older TLS", Server{URL: older.URL, CA: valid.CA, Certificate: valid.Certificate, Key: valid.Key}, "tls-protocols"},
		{"no TLS there", Server{URL: strings.Replace(plain.URL, "redis:", "rediss:", 1) + "?dial_timeout=300ms", CA: valid.CA}, "tls-port"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q, err := tt.server.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			err = q.SetGeneration(t.Context(), "1")
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			e := writ.AsError(err)
			if e.Code != writ.CodeQueueUnavailable || !strings.Contains(e.Hint, tt.want) {
				t.Errorf("%v (hint %q), want QUEUE_UNAVAILABLE and a hint with %q", err, e.Hint, tt.want)
			}
			if _, err := q.Receive(t.Context(), time.Millisecond, queue.Stream{Node: testNode, Direction: queue.In}); writ.CodeOf(err) != writ.CodeQueueUnavailable {
				t.Errorf("Receive = %v", err)
			}
		})
	}
}

func TestLateHandshakeIsReportedAsLate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, sends string
		want        []string // of message and hint
	}{
		{"Silent", "", []string{"did not answer", "overloaded", "tls-port"}},
		{"Slow", "\x16\x03\x03\x00\x7a", []string{"did not complete", "load"}}, // the header of its first record
		{"WithoutTLS", "-ERR unknown command\r\n", []string{"does not seem to speak TLS", "tls-port"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			go func() {
				for {
					conn, err := server.Accept()
					if err != nil {
						return
					}
					defer conn.Close()
					_, _ = conn.Write([]byte(tt.sends))
				}
			}()
			q, err := Server{URL: "rediss://" + server.Addr().String() + "?dial_timeout=200ms"}.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			e := writ.AsError(q.SetGeneration(t.Context(), "1"))
			if text := e.Message + "; " + e.Hint; e.Code != writ.CodeQueueUnavailable || !testenv.Mentions(text, tt.want...) {
				t.Errorf("error %s: %s, want QUEUE_UNAVAILABLE with %q", e.Code, text, tt.want)
			}
		})
	}
}

// Certificates are renewed by replacing their files.
func TestEveryConnectionRereadsCertificates(t *testing.T) {
	t.Parallel()
	ours := testenv.NewAuthority(t)
	files := issue(t, ours, "client", time.Now().Add(-time.Hour))
	server := testenv.RedisWithTLS(t, issue(t, ours, "server", time.Now().Add(time.Hour)))
	q, err := Server{URL: server.URL, CA: files.CA, Certificate: files.Certificate, Key: files.Key}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if err := q.SetGeneration(t.Context(), "1"); err == nil {
		t.Fatal("Redis takes a certificate that has expired")
	}
	issue(t, ours, "client", time.Now().Add(time.Hour))
	if err := q.SetGeneration(t.Context(), "1"); err != nil {
		t.Errorf("with the new certificate: %v", err)
	}
}

func TestUnsafeServerIsRefused(t *testing.T) {
	t.Parallel()
	files := issue(t, testenv.NewAuthority(t), "client", time.Now().Add(time.Hour))
	for _, tt := range []struct {
		server Server
		want   string // "" if it is accepted
	}{
		{Server{URL: "redis://10.0.0.1:6379/0"}, "not on this machine"},
		{Server{URL: "redis://redis.example:6379/0"}, "not on this machine"},
		{Server{URL: "redis://localhost:6379/0"}, ""},
		{Server{URL: "redis://[::1]:6379/0"}, ""},
		{Server{URL: "unix:///run/redis.sock?db=1"}, ""},
		{Server{URL: "rediss://10.0.0.1:6379/0"}, ""},
		{Server{URL: "rediss://10.0.0.1:6379/0?skip_verify=true"}, "any server"},
		{Server{URL: "redis://127.0.0.1:6379/0", CA: files.CA}, "without TLS"},
		{Server{URL: "rediss://127.0.0.1:6379/0", Certificate: files.Certificate}, "and its key"},
		{Server{URL: "rediss://127.0.0.1:6379/0", CA: files.CA + ".gone"}, "no such file"},
		{Server{URL: "rediss://127.0.0.1:6379/0", CA: files.Key}, "no certificate"},
		{Server{URL: "rediss://127.0.0.1:6379/0", Certificate: files.Certificate, Key: files.CA}, "read the certificate"},
	} {
		q, err := tt.server.Open()
		if err == nil {
			_ = q.Close()
		}
		if got := writ.CodeOf(err); tt.want == "" && err != nil || tt.want != "" && (got != writ.CodeUsage || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("Open(%+v) = %v, want %q", tt.server, err, tt.want)
		}
	}
}
