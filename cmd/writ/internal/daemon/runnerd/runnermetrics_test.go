package runnerd

import (
	"context"
	"log/slog"
	"testing"

	"writ"
	"writ/cmd/writ/internal/daemon/internal/test/daemontest"
)

// A node has no certificate that a monitor could verify.
func TestMetricsOfARunnerStayOnThisMachine(t *testing.T) {
	r, err := New(Config{Data: t.TempDir(), Name: "n1", Supervisor: []string{"http://127.0.0.1:1"}, Metrics: daemontest.Elsewhere{Listener: daemontest.Listening(t)}, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r.Ready = func([]writ.NodeDriver) { t.Error("the runner reported ready"); stop() }
	err = r.Run(ctx)
	if writ.CodeOf(err) != writ.CodeListenRefused || writ.AsError(err).Hint == "" {
		t.Errorf("beyond loopback: %v", err)
	}
}
