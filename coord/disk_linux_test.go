package coord

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/ledger/sqlstore"
)

func TestFullDiskRefusesNewWorkAndContinues(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("writ-test", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("mounting a small disk needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	l, err := sqlstore.Open(t.Context(), filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := start(t, func(c *Config) { c.Ledger = l }, func(c *Coordinator) { c.probe.every = 100 * time.Millisecond })
	before, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	_ = os.WriteFile(ballast, make([]byte, 2<<20), 0o600) // fills the disk

	text := signedScript(t, payload())
	status, body := p.post("/v1/submissions", text)
	for range 50 { // the write-ahead log may have some space left
		if status != 202 {
			break
		}
		status, body = p.post("/v1/submissions", signedScript(t, payload()))
	}
	wantProblem(t, "disk full", status, body, writ.CodeStoreFull)
	const said = "the ledger cannot be used"
	p.await("the full disk in the log and the metrics, without a readiness check", func() bool {
		_, metrics := p.get("/metrics")
		return strings.Contains(p.log.String(), said) && strings.Contains(metrics, "\nwrit_ledger_up 0\n")
	})
	if status, body := p.get("/readyz"); status != 503 { // the result of the last check
		t.Errorf("ready with a full disk: status %d, %s", status, body)
	}
	if run := p.run(before.Run); run.State != api.RunStateWaiting {
		t.Errorf("read with a full disk: %+v", run)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if _, err := p.submit(text); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if err := l.Check(t.Context()); err != nil {
		t.Errorf("readiness with free space: %v", err)
	}
	p.await("the free space in the log and the metrics", func() bool {
		_, metrics := p.get("/metrics")
		return strings.Contains(p.log.String(), "the ledger can be used again") && strings.Contains(metrics, "\nwrit_ledger_up 1\n")
	})
	if n := strings.Count(p.log.String(), said); n != 1 {
		t.Errorf("unusable ledger logged %d times, want 1", n)
	}
	p.stop()
}
