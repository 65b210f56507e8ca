package supervisord

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/pki"
	"writ/internal/test/testenv"
	"writ/runner/queue/redisqueue"
)

// Redis uses a certificate that its supervisor issued, also after a restart. It gets the next certificate in time, also
// after an outage of Redis.
//
// Promise: Connections and certificates: Redis accepts node connections over TLS only, also after a restart, and
// receives its next certificate even if it was down at the renewal time.
// How: The supervisor checks every 5 s; it refuses a Redis with a port without TLS.
func TestRedisListensWithACertificateOfItsSupervisor(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "redis-server")
	dir := t.TempDir()
	socket := filepath.Join(dir, "redis.sock")
	var server *exec.Cmd
	start := func() {
		t.Helper()
		server = exec.Command(testenv.Need(t, "redis-server"), "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	stop := func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		_ = os.Remove(socket)
	}
	start()
	defer func() { stop() }()
	queue, err := redisqueue.Server{URL: "unix://" + socket}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer queue.Close()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cluster, dc := writ.ClusterID(writ.DigestOf(nil).String()), writ.DatacenterID(writ.NewUUID())
	now := time.Now()
	issuer := &pki.Issuer{Key: key, Name: pki.Name{Cluster: cluster, Role: pki.Supervisor, Datacenter: dc}, Now: func() time.Time { return now }}
	address := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	s, err := newRedisTLS(queue, issuer, address, filepath.Join(dir, "tls"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	roster := &identity.Roster{Cluster: cluster, Datacenters: []identity.Datacenter{{Datacenter: writ.Datacenter{ID: dc, Name: "dc1"}, SupervisorKey: key.Public().(ed25519.PublicKey)}}}
	shown := func() *x509.Certificate {
		t.Helper()
		var leaf *x509.Certificate
		conn, err := tls.Dial("tcp", address, pki.Client(func(chain []*x509.Certificate) error {
			leaf = chain[0]
			v := pki.Verifier{Roster: roster, Now: time.Now()}
			return v.Is(pki.Name{Role: pki.Redis, Datacenter: dc}, chain)
		}, nil))
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		return leaf
	}
	ensures := func(want bool) {
		t.Helper()
		late := time.Now().Add(30 * time.Second)
		for {
			did, err := s.ensure(t.Context())
			if err == nil && did == want {
				return
			}
			if time.Now().After(late) {
				t.Fatalf("did something %t, %v", did, err)
			}
			time.Sleep(50 * time.Millisecond) // until Redis answers
		}
	}
	ensures(true)
	first := shown()
	ensures(false)
	_, port, _ := net.SplitHostPort(address)
	if conn, err := net.Dial("tcp", "127.0.0.2:"+port); err == nil { // which is of this machine, too
		conn.Close()
		t.Error("Redis listens on an address outside its configuration")
	}
	stop()
	start()
	ensures(true)
	if again := shown(); !again.Equal(first) {
		t.Error("after a restart it has another certificate")
	}
	s.renew = time.Now() // it is time, and Redis is away
	stop()
	if _, err := s.ensure(t.Context()); err == nil {
		t.Fatal("Redis took a certificate although it is away")
	}
	start()
	ensures(true)
	if next := shown(); next.Equal(first) {
		t.Error("it was not renewed")
	}
	now, s.renew = now.Add(24*time.Hour), time.Now() // the clock is ahead at a renewal, and then set back
	ensures(true)
	now = time.Now()
	ensures(true)
	shown()
	if info, err := os.Stat(s.listen.Key); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the key has the mode %v, %v", info.Mode(), err)
	}

	plain, err := redisqueue.Server{URL: testenv.Redis(t).URL}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := plain.Listen(t.Context(), redisqueue.Listening{Address: net.JoinHostPort("127.0.0.1", "1")}); writ.CodeOf(err) != writ.CodeUsage {
		t.Errorf("a Redis that listens without TLS: %v", err)
	}
}

// Redis reads the files by their group, even if the umask of the supervisor would remove that right, as in its systemd
// unit.
func TestRedisCanReadItsCertificateUnderAnyUmask(t *testing.T) {
	path := filepath.Join(t.TempDir(), "redis.key")
	before := syscall.Umask(0o077)
	err := writeShared(path, []byte("x"))
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
