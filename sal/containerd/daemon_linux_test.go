package containerd

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/confine"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// An unreachable daemon received no request. Therefore even exec is retryable, and the state of the container is
// unknown.
func TestMissingDaemonLeavesNoEffects(t *testing.T) {
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
		d := &Connection{Address: address, Patience: 24 * time.Hour}
		if _, err := d.reach(ctx); writ.CodeOf(err) != writ.CodeUnreachable {
			t.Errorf("socket %s: %v", name, err)
		}
		d.Close()
	}
}

// A retry is useless if the system forbids this process to connect: the operator must change the configuration.
//
// Promise: Networks and containers: While containerd is down, calls fail at once and are retried; with a forbidden
// socket they are not retried.
// How: The result of one check is shared until the socket has a listener; an unresponsive containerd delays one check
// by 10 s.
// Also: TestMissingDaemonIsAwaitedOnce, TestSilentDaemonIsAwaitedOnce,
// TestRefusedConnectionIsNotWaitedFor.
func TestForbiddenSocketIsNotRetried(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "c.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(socket, 0); err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{"of another user": socket, "below a file": filepath.Join(file, "c.sock")} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread() // this thread, which lost its rights, ends with the test
			if _, err := unix.SetfsuidRetUid(confine.DefaultFirst); err != nil {
				t.Fatal(err)
			}
			d := &Connection{Address: address, Patience: 24 * time.Hour}
			defer d.Close()
			ctx, cancel := context.WithTimeout(t.Context(), guard)
			defer cancel()
			_, err := d.reach(ctx)
			if e := writ.AsError(err); e == nil || e.Code != writ.CodeDriverMissing || !strings.Contains(e.Hint, "--containerd") || !isAway(err) {
				t.Errorf("reach: %v", err)
			}
			if _, err := d.reachCached(ctx); writ.CodeOf(err) != writ.CodeDriverMissing {
				t.Errorf("the next look: %v", err)
			}
			if _, err := d.checkDaemon(ctx); !errors.Is(err, fs.ErrPermission) && name == "of another user" {
				t.Errorf("writ doctor calls the daemon: %v", err)
			}
			if _, err := d.checkSnapshotter(ctx); writ.AsError(err).Hint != "see the requirement containerd" {
				t.Errorf("writ doctor calls the snapshotter: %v, %s", err, writ.AsError(err).Hint)
			}
		})
	}
}
