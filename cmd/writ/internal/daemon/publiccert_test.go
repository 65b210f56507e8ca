package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/transport"
	"writ/identity"
	"writ/identity/pki"
	"writ/internal/test/testenv"
)

// webAuthority issues certificates as public authorities do.
type webAuthority struct {
	t                 *testing.T
	key               *ecdsa.PrivateKey
	root              *x509.Certificate
	dir               string
	certFile, keyFile string // of the last pair that it issued
	made              int64
}

func newWebAuthority(t *testing.T) *webAuthority {
	t.Helper()
	dir := t.TempDir()
	a := &webAuthority{t: t, key: webKey(t), dir: dir, certFile: filepath.Join(dir, "fullchain.pem"), keyFile: filepath.Join(dir, "privkey.pem")}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.root, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func webKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue writes another pair, and returns the serial number.
func (a *webAuthority) issue(until time.Time, hosts ...string) int64 {
	a.t.Helper()
	a.made++
	key := webKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1000 + a.made), NotBefore: until.Add(-90 * 24 * time.Hour), NotAfter: until, DNSNames: hosts,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(a.keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
	a.write(a.certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return 1000 + a.made
}

// write replaces a file, as programs that renew certificates do.
func (a *webAuthority) write(path string, text []byte) {
	a.t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		a.t.Fatal(err)
	}
}

func (a *webAuthority) read(path string) []byte {
	a.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// browser trusts the authority and no roster.
func (a *webAuthority) browser(host string) *tls.Config {
	authorities := x509.NewCertPool()
	authorities.AddCert(a.root)
	return &tls.Config{RootCAs: authorities, ServerName: host}
}

// opened is the certificate of the files, with a clock that stands still and a log.
func (a *webAuthority) opened(hosts ...string) (*publicCertificate, *time.Time, *testenv.Log) {
	a.t.Helper()
	now, said := time.Now(), new(testenv.Log)
	p := &publicCertificate{
		certFile: a.certFile, keyFile: a.keyFile, hosts: hosts, what: "the certificate for browsers", log: slog.New(slog.NewTextHandler(said, nil)), now: func() time.Time { return now },
	}
	if err := p.open(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	return p, &now, said
}

func serial(t *testing.T, p *publicCertificate) int64 {
	t.Helper()
	c, err := p.get()
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf.SerialNumber.Int64()
}

// newTLSCoord returns a coordinator with an https:// address in the roster of a new cluster, and that roster.
func newTLSCoord(t *testing.T) (*Coord, *identity.Roster) {
	t.Helper()
	data := t.TempDir()
	key, err := CoordinatorKey(data)
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	roster, signed, err := client.Found(&client.Key{Signer: identity.NewSigner(private)}, "alice", time.Now(),
		identity.Coordinator{ID: writ.NewUUID(), Name: "front", Key: PublicKey(key), URLs: []string{"https://" + listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	return &Coord{
		Data: data, Listener: listener, Rosters: [][]byte{signed}, Cluster: roster.Cluster, AllowedHosts: []string{"writ.example.org"}, Version: "test",
		Log: slog.New(slog.DiscardHandler),
	}, roster
}

// A browser gets the certificate that it knows, and a client of writ the one that follows from the roster, from one port. The client verifies by the
// roster alone: it is told nothing of the authority.
func TestACoordinatorShowsBrowsersACertificateThatTheyKnow(t *testing.T) {
	a := newWebAuthority(t)
	want := a.issue(time.Now().Add(24*time.Hour), "writ.example.org")
	c, roster := newTLSCoord(t)
	c.TLSCert, c.TLSKey = a.certFile, a.keyFile
	p, ctx := newProcesses(t.Context())
	if err := p.start(ctx, "coordinator", c.Run); err != nil {
		t.Fatal(err)
	}
	address := "https://" + c.Listener.Addr().String()
	get := func(by http.RoundTripper, path string) (string, *tls.ConnectionState) {
		t.Helper()
		answer, err := (&http.Client{Transport: by}).Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || answer.ProtoMajor != 1 {
			t.Errorf("%s: %v, %s %s", path, err, answer.Proto, answer.Status)
		}
		return string(text), answer.TLS
	}

	web := &http.Transport{TLSClientConfig: a.browser("writ.example.org"), ForceAttemptHTTP2: true}
	defer web.CloseIdleConnections()
	_, state := get(web, "/healthz")
	if got := state.PeerCertificates[0].SerialNumber.Int64(); got != want || state.Version != tls.VersionTLS13 {
		t.Errorf("a browser sees certificate %d of TLS %x, not %d", got, state.Version, want)
	}

	rosters := config.RostersIn(t.TempDir(), roster.Cluster)
	if _, err := rosters.Add(c.Rosters...); err != nil {
		t.Fatal(err)
	}
	by := &transport.Transport{
		Rosters: rosters, Anchor: identity.Anchor{Cluster: roster.Cluster}, Want: transport.Coordinator, Fetch: transport.FromCoordinator, PublicNames: true,
	}
	defer by.CloseIdleConnections()
	_, state = get(by, "/healthz")
	v := pki.Verifier{Roster: roster, Now: time.Now()}
	if err := v.Is(pki.Name{Role: pki.Coordinator, ID: roster.Coordinators[0].ID}, state.PeerCertificates); err != nil {
		t.Errorf("a client of writ sees another certificate: %v", err)
	}
	if text, _ := get(by, "/v1/roster"); !strings.Contains(text, string(roster.Cluster)) {
		t.Errorf("the coordinator says %s", text)
	}
	web.CloseIdleConnections()
	by.CloseIdleConnections()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// elsewhere is a listener that says that other machines reach it.
type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9180} }

// Metrics have names of nodes and people: they leave a machine with TLS or not at all.
//
// Promise: Connections and certificates: Metrics of a coordinator or supervisor leave the machine over TLS 1.3 only,
// and metrics of a node never leave it.
// How: Beyond loopback the metrics listener presents the daemon's certificate; a daemon without a certificate refuses
// the address.
// Also: TestMetricsOfASupervisorLeaveThisMachineWithTLSOnly, TestMetricsOfARunnerStayOnThisMachine.
func TestMetricsLeaveThisMachineWithTLSOnly(t *testing.T) {
	plain := newCoord(t, t.TempDir(), "127.0.0.1:0")
	plain.Metrics = elsewhere{listening(t)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := plain.Run(ctx, func() { t.Error("it says that it serves"); stop() }); writ.CodeOf(err) != writ.CodeListenRefused || writ.AsError(err).Hint == "" {
		t.Errorf("without TLS: %v", err)
	}

	here, there := listening(t), listening(t)
	for address, metrics := range map[string]net.Listener{"http://" + here.Addr().String(): here, "https://" + there.Addr().String(): elsewhere{there}} {
		c, roster := newTLSCoord(t)
		c.Metrics = metrics
		p, ctx := newProcesses(t.Context())
		if err := p.start(ctx, "coordinator", c.Run); err != nil {
			t.Fatal(err)
		}
		monitor := &http.Transport{TLSClientConfig: pki.Client(func(chain []*x509.Certificate) error {
			return (&pki.Verifier{Roster: roster, Now: time.Now()}).Is(pki.Name{Role: pki.Coordinator, ID: roster.Coordinators[0].ID}, chain)
		}, nil)}
		get := func(address string) int {
			t.Helper()
			answer, err := (&http.Client{Transport: monitor}).Get(address + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			_, _ = io.Copy(io.Discard, answer.Body)
			return answer.StatusCode
		}
		if got := get(address); got != http.StatusOK {
			t.Errorf("%s: %d", address, got)
		}
		if host, secure := strings.CutPrefix(address, "https://"); secure && get("http://"+host) == http.StatusOK {
			t.Errorf("%s tells its metrics without TLS, too", address)
		}
		monitor.CloseIdleConnections()
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
}

// A connection that is open goes on with the certificate with which it began; the next one gets the new one.
//
// Promise: Connections and certificates: A renewed browser certificate is used without a restart; if the new pair is
// broken, the coordinator keeps the last valid pair and logs the fault once.
// How: The coordinator checks both files at handshakes, at most every 5 s.
// Also: TestABrokenRenewalKeepsTheLastGoodCertificate, TestAFaultThatLeavesNoTraceInTheFilesIsFoundToBeMended.
func TestARenewedCertificateIsShownWithoutARestart(t *testing.T) {
	a := newWebAuthority(t)
	first := a.issue(time.Now().Add(24*time.Hour), "writ.example.org")
	p, now, said := a.opened("writ.example.org")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", pki.WithPublic(pki.Server(nil, nil), p.get))
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
		conn, err := tls.Dial("tcp", listener.Addr().String(), a.browser("writ.example.org"))
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
	second := a.issue(time.Now().Add(48*time.Hour), "writ.example.org")
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
	if _, until := p.times(); time.Until(until) < 47*time.Hour {
		t.Errorf("it is said to expire at %s", until)
	}
	if said.Lines("was read again") != 1 || said.Lines("level=WARN") != 0 {
		t.Errorf("it logs\n%s", said)
	}
}

// If a renewal is wrong in any way, the last pair that works is shown, and the log says so once until something else is wrong.
func TestABrokenRenewalKeepsTheLastGoodCertificate(t *testing.T) {
	a := newWebAuthority(t)
	want := a.issue(time.Now().Add(24*time.Hour), "writ.example.org")
	p, now, said := a.opened("writ.example.org")
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
	key, certificate := a.read(a.keyFile), a.read(a.certFile)
	for i, spoil := range []func(){
		func() { a.write(a.certFile, certificate[:len(certificate)/2]) }, // half of it
		func() { a.issue(time.Now().Add(time.Hour), "writ.example.org"); a.write(a.keyFile, key) },
		func() {
			if err := os.Remove(a.keyFile); err != nil {
				t.Fatal(err)
			}
		},
		func() { a.write(a.keyFile, nil) },
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
	want = a.issue(time.Now().Add(48*time.Hour), "writ.example.org")
	look(2)
	if said.Lines("was read again") != 1 || said.Lines("level=WARN") != 4 {
		t.Errorf("it logs\n%s", said)
	}
}

// A file that this process may read from now on has not changed, and is read all the same.
func TestAFaultThatLeavesNoTraceInTheFilesIsFoundToBeMended(t *testing.T) {
	a := newWebAuthority(t)
	a.issue(time.Now().Add(24*time.Hour), "writ.example.org")
	p, now, _ := a.opened("writ.example.org")
	want := a.issue(time.Now().Add(48*time.Hour), "writ.example.org")
	p.seen, p.fault = p.stat(), "permission denied"
	*now = now.Add(lookEvery)
	if got := serial(t, p); got != want || p.fault != "" {
		t.Errorf("certificate %d, fault %q", got, p.fault)
	}
}

// Promise: Connections and certificates: An unusable browser certificate stops the start; an expired or mismatched
// one, or one with a key readable by other users, is logged.
// How: The coordinator fails with `USAGE` and a hint.
// Also: TestACertificateForBrowsersThatIsNotRightIsLogged,
// TestACoordinatorStartsWithACertificateForBrowsersThatHasExpired.
func TestFlagsOfTheCertificateForBrowsersThatCannotWorkAreRefused(t *testing.T) {
	a := newWebAuthority(t)
	a.issue(time.Now().Add(time.Hour), "writ.example.org")
	other := newWebAuthority(t)
	other.issue(time.Now().Add(time.Hour), "writ.example.org")
	secure := func() *Coord { c, _ := newTLSCoord(t); return c }
	plain := func() *Coord { return newCoord(t, t.TempDir(), "127.0.0.1:0") }
	for name, tt := range map[string]struct {
		coordinator func() *Coord
		cert, key   string
		says        string
	}{
		"no key":             {secure, a.certFile, "", "one of them is missing"},
		"no certificate":     {secure, "", a.keyFile, "one of them is missing"},
		"a missing file":     {secure, a.certFile + ".not", a.keyFile, "cannot read"},
		"a directory":        {secure, a.certFile, a.dir, "cannot read"},
		"another key":        {secure, a.certFile, other.keyFile, "are no pair"},
		"exchanged":          {secure, a.keyFile, a.certFile, "are no pair"},
		"without TLS":        {plain, a.certFile, a.keyFile, "speaks no TLS"},
		"no key, no TLS":     {plain, a.certFile, "", "one of them is missing"},
		"TLS with no roster": {func() *Coord { c := secure(); c.Rosters = nil; return c }, a.certFile, a.keyFile, "speaks no TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			c := tt.coordinator()
			c.TLSCert, c.TLSKey = tt.cert, tt.key
			err := c.Run(t.Context(), func() { t.Error("it says that it serves") })
			e, ok := errors.AsType[*writ.Error](err)
			if !ok || e.Code != writ.CodeUsage || e.Hint == "" || !strings.Contains(e.Message, tt.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

// What works but is not right is logged at the start, and again when another pair is read.
func TestACertificateForBrowsersThatIsNotRightIsLogged(t *testing.T) {
	const readable, elsewhere = "others on this machine can use the key", "is for another host"
	a := newWebAuthority(t)
	a.issue(time.Now().Add(-time.Hour), "writ.example.org")
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o400: 0, 0o640: 0, 0o644: 1, 0o660: 1, 0o602: 1} {
		if err := os.Chmod(a.keyFile, mode); err != nil {
			t.Fatal(err)
		}
		if _, _, said := a.opened("10.77.0.2", "writ.example.org"); said.Lines(readable) != want || said.Lines(elsewhere) != 0 {
			t.Errorf("mode %o:\n%s", mode, said)
		}
	}
	p, now, said := a.opened("10.77.0.2", "other.example.org")
	a.issue(time.Now().Add(time.Hour), "writ.example.org")
	*now = now.Add(lookEvery)
	if serial(t, p); said.Lines(elsewhere) != 2 {
		t.Errorf("of a certificate for another host:\n%s", said)
	}
}

// One that has expired is no reason not to start: work goes on without browsers.
func TestACoordinatorStartsWithACertificateForBrowsersThatHasExpired(t *testing.T) {
	a := newWebAuthority(t)
	a.issue(time.Now().Add(-time.Hour), "writ.example.org")
	c, _ := newTLSCoord(t)
	said := new(testenv.Log)
	c.TLSCert, c.TLSKey, c.Log = a.certFile, a.keyFile, slog.New(slog.NewTextHandler(said, nil))
	p, ctx := newProcesses(t.Context())
	if err := p.start(ctx, "coordinator", c.Run); err != nil {
		t.Fatal(err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if said.Lines("level=WARN msg=\"the certificate for browsers has expired\"") != 1 {
		t.Errorf("it logs\n%s", said)
	}
}
