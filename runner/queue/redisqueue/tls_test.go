package redisqueue

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/testenv"
	"writ/runner/queue"
)

// authority signs certificates for 127.0.0.1 that are valid until then.
type authority struct {
	t    *testing.T
	dir  string
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), name: name}
	a.key = a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue leaves a certificate and its key under a name.
func (a *authority) issue(name string, until time.Time) testenv.RedisTLS {
	a.t.Helper()
	key := a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return testenv.RedisTLS{
		CA: filepath.Join(a.dir, "ca.pem"), Certificate: a.write(name+".pem", "CERTIFICATE", der), Key: a.write(name+".key", "PRIVATE KEY", private),
	}
}

func TestRedisIsReachedOverTLSOnlyIfBothSidesAreTrusted(t *testing.T) {
	t.Parallel()
	ours, strange := newAuthority(t, "ours"), newAuthority(t, "strange")
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	valid, expired := ours.issue("client", later), ours.issue("old-client", before)
	server := testenv.RedisWithTLS(t, ours.issue("server", later))
	old := testenv.RedisWithTLS(t, ours.issue("old-server", before))
	plain := testenv.Redis(t)

	for _, tt := range []struct {
		name   string
		server Server
		want   string // of the hint; "" if it works
	}{
		{"trusted", Server{URL: server.URL, CA: valid.CA, Certificate: valid.Certificate, Key: valid.Key}, ""},
		{"signed by somebody else", Server{URL: server.URL, CA: strange.issue("x", later).CA, Certificate: valid.Certificate, Key: valid.Key}, "--redis-ca"},
		{"the authorities of the system", Server{URL: server.URL, Certificate: valid.Certificate, Key: valid.Key}, "--redis-ca"},
		{"another name", Server{URL: strings.Replace(server.URL, "127.0.0.1", "localhost", 1), CA: valid.CA, Certificate: valid.Certificate, Key: valid.Key}, "name"},
		{"no certificate of ours", Server{URL: server.URL, CA: valid.CA}, "--redis-cert"},
		{"ours has expired", Server{URL: server.URL, CA: valid.CA, Certificate: expired.Certificate, Key: expired.Key}, "--redis-cert"},
		{"that of Redis has expired", Server{URL: old.URL, CA: valid.CA, Certificate: valid.Certificate, Key: valid.Key}, "renew"},
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

// Certificates are renewed by replacing their files.
func TestCertificatesAreReadAgainForEveryConnection(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t, "ours")
	files := ours.issue("client", time.Now().Add(-time.Hour))
	server := testenv.RedisWithTLS(t, ours.issue("server", time.Now().Add(time.Hour)))
	q, err := Server{URL: server.URL, CA: files.CA, Certificate: files.Certificate, Key: files.Key}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if err := q.SetGeneration(t.Context(), "1"); err == nil {
		t.Fatal("Redis takes a certificate that has expired")
	}
	ours.issue("client", time.Now().Add(time.Hour))
	if err := q.SetGeneration(t.Context(), "1"); err != nil {
		t.Errorf("with the new certificate: %v", err)
	}
}

func TestServerThatCannotBeSafeIsRefused(t *testing.T) {
	t.Parallel()
	files := newAuthority(t, "ours").issue("client", time.Now().Add(time.Hour))
	for _, tt := range []struct {
		server Server
		want   string // "" if it is taken
	}{
		{Server{URL: "redis://10.0.0.1:6379/0"}, "not on this machine"},
		{Server{URL: "redis://redis.example:6379/0"}, "not on this machine"},
		{Server{URL: "redis://10.0.0.1:6379/0", Plain: true}, ""},
		{Server{URL: "redis://localhost:6379/0"}, ""},
		{Server{URL: "redis://[::1]:6379/0"}, ""},
		{Server{URL: "unix:///run/redis.sock?db=1"}, ""},
		{Server{URL: "rediss://10.0.0.1:6379/0"}, ""},
		{Server{URL: "rediss://10.0.0.1:6379/0?skip_verify=true"}, "anybody"},
		{Server{URL: "redis://127.0.0.1:6379/0", CA: files.CA}, "without TLS"},
		{Server{URL: "rediss://127.0.0.1:6379/0", Certificate: files.Certificate}, "needs its key"},
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
