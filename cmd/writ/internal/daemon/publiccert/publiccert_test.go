package publiccert

import (
	"crypto/tls"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"writ/cmd/writ/internal/daemon/internal/test/daemontest"
	"writ/identity/pki"
	"writ/internal/test/testenv"
)

// opened returns the certificate in the files, with a fixed clock and a log.
func opened(a *daemontest.Authority, hosts ...string) (*Certificate, *time.Time, *testenv.Log) {
	a.T.Helper()
	now, said := time.Now(), new(testenv.Log)
	p := &Certificate{
		CertFile: a.CertFile, KeyFile: a.KeyFile, Hosts: hosts, What: "the certificate for browsers", Log: slog.New(slog.NewTextHandler(said, nil)), Now: func() time.Time { return now },
	}
	if err := p.Open(a.T.Context()); err != nil {
		a.T.Fatal(err)
	}
	return p, &now, said
}

func serial(t *testing.T, p *Certificate) int64 {
	t.Helper()
	c, err := p.Get()
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf.SerialNumber.Int64()
}

// An open connection keeps its certificate. The next connection uses the new one.
//
// Promise: Connections and certificates: A renewed browser certificate is used without a restart; if the new pair is
// broken, the coordinator keeps the last valid pair and logs the fault once.
// How: The coordinator checks both files at handshakes, at most every 5 s.
// Also: TestABrokenRenewalKeepsTheLastGoodCertificate, TestAFaultThatLeavesNoTraceInTheFilesIsFoundToBeMended.
func TestARenewedCertificateIsShownWithoutARestart(t *testing.T) {
	a := daemontest.NewAuthority(t)
	first := a.Issue(time.Now().Add(24*time.Hour), "writ.example.org")
	p, now, said := opened(a, "writ.example.org")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", pki.WithPublic(pki.Server(nil, nil), p.Get))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // until the listener is closed
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	dial := func() *tls.Conn {
		t.Helper()
		conn, err := tls.Dial("tcp", listener.Addr().String(), a.Browser("writ.example.org"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	shown := func(conn *tls.Conn) int64 {
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	open := dial()
	second := a.Issue(time.Now().Add(48*time.Hour), "writ.example.org")
	if got := shown(dial()); got != first {
		t.Errorf("certificate %d before it is time to look again, not %d", got, first)
	}
	*now = now.Add(lookEvery)
	if got := shown(dial()); got != second {
		t.Errorf("certificate %d once it is renewed, not %d", got, second)
	}
	if _, err := open.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(open, make([]byte, 1)); err != nil || shown(open) != first {
		t.Errorf("the open connection: %v", err)
	}
	if _, until := p.Times(); time.Until(until) < 47*time.Hour {
		t.Errorf("expires at %s", until)
	}
	if said.Lines("was read again") != 1 || said.Lines("level=WARN") != 0 {
		t.Errorf("it logs\n%s", said)
	}
}

// If a renewal is broken, the last valid pair stays in use. The log reports the fault once, until the fault changes.
func TestABrokenRenewalKeepsTheLastGoodCertificate(t *testing.T) {
	a := daemontest.NewAuthority(t)
	want := a.Issue(time.Now().Add(24*time.Hour), "writ.example.org")
	p, now, said := opened(a, "writ.example.org")
	look := func(times int) {
		t.Helper()
		for range times {
			*now = now.Add(lookEvery)
			if got := serial(t, p); got != want {
				t.Errorf("certificate %d, not %d:\n%s", got, want, said)
			}
		}
	}
	const warning = "level=WARN msg=\"the files of the certificate for browsers have changed and cannot be used"
	key, certificate := a.Read(a.KeyFile), a.Read(a.CertFile)
	for i, spoil := range []func(){
		func() { a.Write(a.CertFile, certificate[:len(certificate)/2]) }, // half of it
		func() { a.Issue(time.Now().Add(time.Hour), "writ.example.org"); a.Write(a.KeyFile, key) },
		func() {
			if err := os.Remove(a.KeyFile); err != nil {
				t.Fatal(err)
			}
		},
		func() { a.Write(a.KeyFile, nil) },
	} {
		spoil()
		look(3)
		if said.Lines(warning) != i+1 {
			t.Fatalf("after fault %d:\n%s", i, said)
		}
	}
	if said.Lines("fix=") != 4 || strings.Contains(said.String(), "PRIVATE KEY") {
		t.Errorf("it logs\n%s", said)
	}
	want = a.Issue(time.Now().Add(48*time.Hour), "writ.example.org")
	look(2)
	if said.Lines("was read again") != 1 || said.Lines("level=WARN") != 4 {
		t.Errorf("it logs\n%s", said)
	}
}

// A file that becomes readable has not changed, but it must be read again.
func TestAFaultThatLeavesNoTraceInTheFilesIsFoundToBeMended(t *testing.T) {
	a := daemontest.NewAuthority(t)
	a.Issue(time.Now().Add(24*time.Hour), "writ.example.org")
	p, now, _ := opened(a, "writ.example.org")
	want := a.Issue(time.Now().Add(48*time.Hour), "writ.example.org")
	p.seen, p.fault = p.stat(), "permission denied"
	*now = now.Add(lookEvery)
	if got := serial(t, p); got != want || p.fault != "" {
		t.Errorf("certificate %d, fault %q", got, p.fault)
	}
}

// A certificate that works with a fault is logged at the start, and again when another pair is loaded.
func TestInvalidBrowserCertificateIsLogged(t *testing.T) {
	const readable, elsewhere = "others on this machine can use the key", "is for another host"
	a := daemontest.NewAuthority(t)
	a.Issue(time.Now().Add(-time.Hour), "writ.example.org")
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o400: 0, 0o640: 0, 0o644: 1, 0o660: 1, 0o602: 1} {
		if err := os.Chmod(a.KeyFile, mode); err != nil {
			t.Fatal(err)
		}
		if _, _, said := opened(a, "10.77.0.2", "writ.example.org"); said.Lines(readable) != want || said.Lines(elsewhere) != 0 {
			t.Errorf("mode %o:\n%s", mode, said)
		}
	}
	p, now, said := opened(a, "10.77.0.2", "other.example.org")
	a.Issue(time.Now().Add(time.Hour), "writ.example.org")
	*now = now.Add(lookEvery)
	if serial(t, p); said.Lines(elsewhere) != 2 {
		t.Errorf("of a certificate for another host:\n%s", said)
	}
}
