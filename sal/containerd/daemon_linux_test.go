package containerd

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// Nothing was sent to a daemon that is away: exec may be tried again, and nobody claims to know how the container does.
func TestAwayDaemonLeavesNothingDone(t *testing.T) {
	b := newFixture(t, "")
	b.must("container.create", "web", map[string]any{"image": "busybox", "command": waits})
	b.daemon.Kill()
	b.driver.Patience = time.Millisecond
	_, err := b.do("container.exec", "web", map[string]any{"command": []any{"true"}})
	if e := writ.AsError(err); !e.Retryable() || e.Code.Info().Kind != writ.Unavailable {
		t.Errorf("exec: %s, %v", e.Code, err)
	}
	seen, err := b.driver.Observe(t.Context(), saltest.Resource(writ.KindContainer, "web"))
	if err == nil || !seen.Exists || seen.UID != "uid-of-web" || seen.State != catalog.Unclear || catalog.StandingOf(seen.Values).State != catalog.Unclear {
		t.Errorf("it is seen as %+v, %v", seen, err)
	}
	b.daemon.Start()
	b.driver.Patience = guard
	if v := b.handle("web"); v["state"] != running {
		t.Errorf("with the daemon back it is %v", v["state"])
	}
	b.sh("web", "true")
}

func TestRefusedConnectionIsNotWaitedFor(t *testing.T) {
	missing, stale := filepath.Join(t.TempDir(), "c.sock"), filepath.Join(t.TempDir(), "c.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	for name, address := range map[string]string{"missing": missing, "without a listener": stale} {
		d := &Driver{Dir: t.TempDir(), Address: address, Patience: 24 * time.Hour}
		if _, err := d.reach(ctx); writ.CodeOf(err) != writ.CodeUnreachable {
			t.Errorf("socket %s: %v", name, err)
		}
		d.Close()
	}
}
