package devcluster

import (
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon/internal/test/daemontest"
	"writ/cmd/writ/internal/daemon/processes"
	"writ/cmd/writ/internal/daemon/supervisord"
	"writ/identity/pki"
)

// TestMetricsOfASupervisorLeaveThisMachineWithTLSOnly reads the metrics of a supervisor whose listener is reachable
// from other machines.
func TestMetricsOfASupervisorLeaveThisMachineWithTLSOnly(t *testing.T) {
	dev := New(Config{Data: t.TempDir(), Listener: daemontest.Listening(t), Datacenters: 1, Version: "test", Log: slog.New(slog.DiscardHandler), Note: t.Logf})
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
	all, ctx := processes.New(t.Context())
	redis, stand, err := dev.startRedis(ctx, all, "local", filepath.Join(dir, "redis"))
	if err != nil {
		t.Fatal(err)
	}
	there := daemontest.Listening(t)
	super := supervisord.Config{Data: dir, Name: "local", Redis: redis, NoAccounts: stand, Listener: daemontest.Listening(t), Metrics: daemontest.Elsewhere{Listener: there}, Version: "test", Log: dev.Log}
	if err := all.Start(ctx, "supervisor", processes.Build(func(ready func()) (*supervisord.Supervisor, error) {
		super.Ready = ready
		return supervisord.New(super)
	})); err != nil {
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
		t.Errorf("the supervisor serves its metrics without TLS as well:\n%s", text)
	}
	if status, text := get("https://", "/v1/rosters"); status != http.StatusNotFound {
		t.Errorf("the listener for metrics serves more: %d %s", status, text)
	}
	monitor.CloseIdleConnections()
	if err := all.Stop(); err != nil {
		t.Error(err)
	}
}
