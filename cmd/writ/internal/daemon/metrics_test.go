package daemon

import (
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/identity/pki"
)

// listening is a listener of a test.
func listening(t *testing.T) net.Listener {
	t.Helper()
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestMetricsOfASupervisorLeaveThisMachineWithTLSOnly asks a supervisor whose listener for metrics other machines reach.
func TestMetricsOfASupervisorLeaveThisMachineWithTLSOnly(t *testing.T) {
	dev := &Dev{Data: t.TempDir(), Listener: listening(t), Datacenters: 1, Version: "test", Log: slog.New(slog.DiscardHandler), Note: t.Logf}
	person, rosters, err := dev.govern()
	if err != nil {
		t.Fatal(err)
	}
	dir := dev.datacenterDir("local")
	signed, err := rosters.Links()
	if err == nil {
		_, err = config.RostersIn(dir, rosters.Cluster).Add(signed...)
	}
	if err != nil {
		t.Fatal(err)
	}
	all, ctx := newProcesses(t.Context())
	redis, stand, err := dev.startRedis(ctx, all, "local", filepath.Join(dir, "redis"))
	if err != nil {
		t.Fatal(err)
	}
	there := listening(t)
	super := &Supervisor{Data: dir, Name: "local", Redis: redis, NoAccounts: stand, Listener: listening(t), Metrics: elsewhere{there}, Version: "test", Log: dev.Log}
	if err := all.start(ctx, "supervisor", super.Run); err != nil {
		t.Fatal(err)
	}
	monitor := &http.Transport{TLSClientConfig: pki.Client(func(chain []*x509.Certificate) error {
		return (&pki.Verifier{Roster: person.Roster, Now: time.Now()}).Is(pki.Name{Role: pki.Supervisor, Datacenter: person.Roster.Datacenters[0].ID}, chain)
	}, nil)}
	get := func(scheme, path string) (int, string) {
		t.Helper()
		answer, err := (&http.Client{Transport: monitor}).Get(scheme + there.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	status, text := get("https://", "/metrics")
	for _, want := range []string{`writ_build_info{role="supervisor",version="test"} 1`, `writ_supervisor_serving{datacenter="local"} 1`, "writ_supervisor_epoch 1", "writ_store_bytes ", `writ_certificate_expires_seconds{certificate="supervisor"}`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, without %s:\n%.2000s", status, want, text)
		}
	}
	if status, text := get("http://", "/metrics"); status == http.StatusOK {
		t.Errorf("it tells its metrics without TLS, too:\n%s", text)
	}
	if status, text := get("https://", "/v1/rosters"); status != http.StatusNotFound {
		t.Errorf("the listener for metrics serves more: %d %s", status, text)
	}
	monitor.CloseIdleConnections()
	if err := all.stop(); err != nil {
		t.Error(err)
	}
}

// A node has no certificate that a monitor could verify.
func TestMetricsOfARunnerStayOnThisMachine(t *testing.T) {
	r := &Runner{Data: t.TempDir(), Name: "n1", Supervisor: []string{"http://127.0.0.1:1"}, Metrics: elsewhere{listening(t)}, Version: "test", Log: slog.New(slog.DiscardHandler)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := r.Run(ctx, func([]writ.NodeDriver) { t.Error("it says that it serves"); stop() })
	if writ.CodeOf(err) != writ.CodeListenRefused || writ.AsError(err).Hint == "" {
		t.Errorf("beyond loopback: %v", err)
	}
}
