package coordinatord

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/internal/test/daemontest"
	"writ/cmd/writ/internal/daemon/processes"
	"writ/cmd/writ/internal/transport"
	"writ/identity"
	"writ/identity/pki"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
)

// newTLSCoord returns a coordinator with an https:// address in the roster of a new cluster, and that roster.
func newTLSCoord(t *testing.T) (Config, *identity.Roster) {
	t.Helper()
	data := t.TempDir()
	key, err := Key(data)
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := daemon.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	roster, signed, err := client.Found(&client.Key{Signer: sshsig.NewSigner(private)}, "alice", time.Now(),
		identity.Coordinator{ID: writ.NewUUID(), Name: "front", Key: daemon.PublicKey(key), URLs: []string{"https://" + listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Data: data, Listener: listener, Rosters: [][]byte{signed}, Cluster: roster.Cluster, AllowedHosts: []string{"writ.example.org"}, Version: "test",
		Log: slog.New(slog.DiscardHandler),
	}, roster
}

// On one port, a browser gets a certificate of its known authority, and a client of writ gets the certificate that
// follows from the roster. The client verifies by the roster alone, without that authority.
func TestACoordinatorShowsBrowsersACertificateThatTheyKnow(t *testing.T) {
	a := daemontest.NewAuthority(t)
	want := a.Issue(time.Now().Add(24*time.Hour), "writ.example.org")
	c, roster := newTLSCoord(t)
	c.TLSCert, c.TLSKey = a.CertFile, a.KeyFile
	p, ctx := processes.New(t.Context())
	if err := p.Start(ctx, "coordinator", serving(c)); err != nil {
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

	web := &http.Transport{TLSClientConfig: a.Browser("writ.example.org"), ForceAttemptHTTP2: true}
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
		t.Errorf("answer of the coordinator = %s", text)
	}
	web.CloseIdleConnections()
	by.CloseIdleConnections()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// Metrics contain names of nodes and people, so they leave a machine only over TLS.
//
// Promise: Connections and certificates: Metrics of a coordinator or supervisor leave the machine over TLS 1.3 only,
// and metrics of a node never leave it.
// How: Beyond loopback the metrics listener presents the daemon's certificate; a daemon without a certificate refuses
// the address.
// Also: TestMetricsOfASupervisorLeaveThisMachineWithTLSOnly, TestMetricsOfARunnerStayOnThisMachine.
func TestMetricsLeaveThisMachineWithTLSOnly(t *testing.T) {
	plain := newCoord(t, t.TempDir(), "127.0.0.1:0")
	plain.Metrics = daemontest.Elsewhere{Listener: daemontest.Listening(t)}
	if err := refusal(t, plain); writ.CodeOf(err) != writ.CodeListenRefused || writ.AsError(err).Hint == "" {
		t.Errorf("without TLS: %v", err)
	}

	here, there := daemontest.Listening(t), daemontest.Listening(t)
	for address, metrics := range map[string]net.Listener{"http://" + here.Addr().String(): here, "https://" + there.Addr().String(): daemontest.Elsewhere{Listener: there}} {
		c, roster := newTLSCoord(t)
		c.Metrics = metrics
		p, ctx := processes.New(t.Context())
		if err := p.Start(ctx, "coordinator", serving(c)); err != nil {
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
			t.Errorf("%s serves its metrics without TLS as well", address)
		}
		monitor.CloseIdleConnections()
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// Promise: Connections and certificates: An unusable browser certificate stops the start; an expired or mismatched
// one, or one with a key readable by other users, is logged.
// How: The coordinator fails with `USAGE` and a hint.
// Also: TestInvalidBrowserCertificateIsLogged,
// TestCoordinatorStartsWithExpiredBrowserCertificate.
func TestFlagsOfTheCertificateForBrowsersThatCannotWorkAreRefused(t *testing.T) {
	a := daemontest.NewAuthority(t)
	a.Issue(time.Now().Add(time.Hour), "writ.example.org")
	other := daemontest.NewAuthority(t)
	other.Issue(time.Now().Add(time.Hour), "writ.example.org")
	secure := func() Config { c, _ := newTLSCoord(t); return c }
	plain := func() Config { return newCoord(t, t.TempDir(), "127.0.0.1:0") }
	for name, tt := range map[string]struct {
		coordinator func() Config
		cert, key   string
		says        string
	}{
		"no key":             {secure, a.CertFile, "", "one of them is missing"},
		"no certificate":     {secure, "", a.KeyFile, "one of them is missing"},
		"a missing file":     {secure, a.CertFile + ".not", a.KeyFile, "cannot read"},
		"a directory":        {secure, a.CertFile, a.Dir, "cannot read"},
		"another key":        {secure, a.CertFile, other.KeyFile, "do not belong together"},
		"exchanged":          {secure, a.KeyFile, a.CertFile, "do not belong together"},
		"without TLS":        {plain, a.CertFile, a.KeyFile, "does not use TLS"},
		"no key, no TLS":     {plain, a.CertFile, "", "one of them is missing"},
		"TLS with no roster": {func() Config { c := secure(); c.Rosters = nil; return c }, a.CertFile, a.KeyFile, "does not use TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			c := tt.coordinator()
			c.TLSCert, c.TLSKey = tt.cert, tt.key
			err := refusal(t, c)
			e, ok := errors.AsType[*writ.Error](err)
			if !ok || e.Code != writ.CodeUsage || e.Hint == "" || !strings.Contains(e.Message, tt.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

// An expired certificate for browsers does not prevent the start: all other work continues.
func TestCoordinatorStartsWithExpiredBrowserCertificate(t *testing.T) {
	a := daemontest.NewAuthority(t)
	a.Issue(time.Now().Add(-time.Hour), "writ.example.org")
	c, _ := newTLSCoord(t)
	said := new(testenv.Log)
	c.TLSCert, c.TLSKey, c.Log = a.CertFile, a.KeyFile, slog.New(slog.NewTextHandler(said, nil))
	p, ctx := processes.New(t.Context())
	if err := p.Start(ctx, "coordinator", serving(c)); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if said.Lines("level=WARN msg=\"the certificate for browsers has expired\"") != 1 {
		t.Errorf("it logs\n%s", said)
	}
}
