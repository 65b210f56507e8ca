package containerd

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/cgroup"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/saltest"
)

// withSettings returns a fixture whose image has a user, a directory and a stop signal of its own.
func withSettings(t *testing.T) *fixture {
	b := newFixture(t, "")
	image := testenv.BusyboxThatSays(t, map[string]any{"User": "web", "WorkingDir": "/srv", "StopSignal": "SIGUSR2"})
	b.driver.Images = fetched{sal.Image{Path: image.Path, Format: "oci", SHA256: image.SHA256, Bytes: image.Bytes}}
	return b
}

// Promise: Networks and containers: A container has the user, directory, limits and tmpfs of its call, and with
// `read_only` it writes nowhere else.
// Also: TestRunHasItsSettings, TestWrongUserIsRefused.
func TestContainerHasItsSettings(t *testing.T) {
	b := withSettings(t)
	b.must("container.create", "web", map[string]any{
		"image": "busybox", "memory_mib": int64(64), "command": waits,
		"user": "web:log", "workdir": "/made/for it", "read_only": true, "tmpfs": []any{"/cache", "/run/x", "/etc/app"},
		"files":   map[string]any{"/etc/app/conf": "yes"},
		"ulimits": map[string]any{"nofile": int64(9_999), "memlock_mib": int64(1)},
	})
	reads := func(when string) {
		t.Helper()
		for line, want := range map[string]string{
			"id -un; id -gn":                                 "web\nlog",
			"pwd":                                            "/made/for it",
			"ulimit -n; ulimit -Hn; ulimit -l":               "9999\n9999\n1024",
			"cat /etc/app/conf":                              "yes",
			"echo x >/cache/a && cat /cache/a":               "x",
			"echo x >/run/x/a && cat /run/x/a":               "x",
			"echo x 2>/dev/null >/tmp/a || echo no":          "no",
			"echo x 2>/dev/null >/etc/a || echo no":          "no",
			"stat -c '%a %U' /cache; stat -c '%a %U' /run/x": "755 web\n755 web",
			"cp /bin/busybox /cache/true && /cache/true 2>/dev/null || echo no": "no",
			"df -m /cache | tail -n 1 | awk '{print $2}'":                       "64",
		} {
			got := strings.TrimSpace(b.sh("web", line))
			if got != want {
				t.Errorf("%s, %s: %q, want %q", when, line, got, want)
			}
		}
	}
	reads("at first")
	b.must("container.stop", "web", map[string]any{"grace_seconds": int64(1)}) // it ignores the signal of its image
	b.reopen()
	b.must("container.start", "web", nil)
	if got := b.sh("web", "ls /cache"); got != "" {
		t.Errorf("after a restart, a tmpfs has %q", got)
	}
	reads("after a restart")
	b.must("container.delete", "web", nil)
	b.leftNothing("after the deletion")
}

// A script runs `container.run` with the same settings.
func TestRunHasItsSettings(t *testing.T) {
	b := withSettings(t)
	got := b.must("container.run", "job", map[string]any{
		"image": "busybox", "memory_mib": int64(64), "user": "0", "workdir": "/", "read_only": true,
		"command": []any{"sh", "-c", "id -u; pwd; touch /x 2>/dev/null || echo no"},
	})
	if got["stdout"] != "0\n/\nno\n" {
		t.Errorf("its output is %q", got["stdout"])
	}
}

// Promise: Networks and containers: The program of a container may listen on any of its ports without being root.
func TestAnyUserMayListenOnLowPorts(t *testing.T) {
	b := newPublishing(t)
	args := named("web", 8080)
	args["user"] = "65534:65534"
	args["command"] = []any{"sh", "-c", "mkdir -p /tmp/www; echo web > /tmp/www/name; exec httpd -f -p 80 -h /tmp/www"}
	args["tmpfs"] = []any{"/tmp"}
	b.must("container.create", "web", args)
	b.eventually("it answers", func() bool { return strings.HasSuffix(b.answers(8080), "\nweb\n") })
	if got := b.sh("web", "id -u"); strings.TrimSpace(got) != "65534" {
		t.Errorf("its user is %s", got)
	}
	b.must("container.delete", "web", nil)
}

func TestStopSignalOfTheCallIsUsed(t *testing.T) {
	b := withSettings(t)
	args := map[string]any{
		"image": "busybox", "memory_mib": int64(64), "grace_seconds": int64(20),
		"command": []any{"sh", "-c", `trap "echo got QUIT; exit 0" QUIT; trap "echo got USR2" USR2 TERM; echo ready; while :; do sleep 0.1; done`},
	}
	for _, tt := range []struct{ signal, want, ended string }{{"QUIT", "got QUIT", "exited"}, {"", "got USR2", "killed"}} {
		each := maps.Clone(args)
		if tt.signal != "" {
			each["stop_signal"] = tt.signal
		} else {
			each["grace_seconds"] = int64(1)
		}
		b.must("container.create", "web", each)
		b.eventually("it runs", func() bool { return strings.HasSuffix(strings.TrimSpace(b.log("web")), "ready") })
		began := time.Now()
		if got := b.must("container.stop", "web", map[string]any{"grace_seconds": each["grace_seconds"]}); got["ended"] != tt.ended {
			t.Errorf("with %q it %v after %s", tt.signal, got["ended"], time.Since(began))
		}
		if !strings.Contains(b.log("web"), tt.want) {
			t.Errorf("with %q it says %q", tt.signal, b.log("web"))
		}
	}
}

func TestWrongUserIsRefused(t *testing.T) {
	b := withSettings(t)
	for _, named := range []string{"nobody2", "web:nobody2", "70000", "99999999999"} {
		_, err := b.do("container.create", "web", map[string]any{
			"image": "busybox", "memory_mib": int64(64), "command": waits, "user": named,
		})
		if writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), named) || strings.Contains(err.Error(), "USER") {
			t.Errorf("user %s: %v", named, err)
		}
	}
	b.leftNothing("after the refusals")
}

func TestTooHighLimitIsRefused(t *testing.T) {
	b := withSettings(t)
	daemon, err := b.driver.open()
	if err != nil {
		t.Fatal(err)
	}
	server, err := daemon.IntrospectionService().Server(b.driver.in(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: 5000, Max: 5000}
	if err := unix.Prlimit(int(server.Pid), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	args := map[string]any{
		"image": "busybox", "memory_mib": int64(64), "command": waits, "ulimits": map[string]any{"nofile": int64(5001)},
	}
	_, err = b.do("container.create", "web", args)
	const want = "ulimits.nofile is 5001, and containerd of the node allows 5000"
	if writ.CodeOf(err) != writ.CodeArgumentsInvalid || writ.AsError(err).Message != want {
		t.Errorf("5001 open files: %v", err)
	}
	b.leftNothing("after the refusal")
	args["ulimits"] = map[string]any{"nofile": int64(5000)}
	b.must("container.create", "web", args)
	if got := b.sh("web", "ulimit -n"); got != "5000\n" {
		t.Errorf("with 5000: %q", got)
	}
}

// Promise: Networks and containers: Files in a tmpfs count as memory of their container.
func TestTmpfsCountsAsMemory(t *testing.T) {
	b := withSettings(t)
	for most, want := range map[int64]string{64: "a failed", 256: "a b"} { // MiB of memory, of which 96 are written
		got := b.must("container.run", fmt.Sprint("job", most), map[string]any{
			"image": "busybox", "memory_mib": most, "user": "0", "tmpfs": []any{"/a", "/b"}, "check": false,
			"command": []any{"sh", "-c", "for d in a b; do dd if=/dev/zero of=/$d/x bs=1M count=48 2>/dev/null && echo $d || echo failed; done"},
		})
		if said := strings.Join(strings.Fields(got["stdout"].(string)), " "); said != want {
			t.Errorf("with %d MiB: %q, want %q (%v)", most, said, want, got)
		}
	}
}

// Promise: Networks and containers: A container gets no swap of its node.
// How: Its control group limits memory and swap together, if the kernel can limit swap.
func TestContainerGetsNoSwap(t *testing.T) {
	b := newFixture(t, "")
	if !cgroup.LimitsSwap() {
		t.Skip("the kernel limits no swap")
	}
	b.must("container.create", "web", map[string]any{"image": "busybox", "memory_mib": int64(64), "command": waits})
	group := filepath.Join(b.driver.namespace(), saltest.Resource(writ.KindContainer, "web").HostName()+"-1")
	limits := map[string]string{
		filepath.Join("/sys/fs/cgroup/memory", group, "memory.memsw.limit_in_bytes"): "67108864", // memory and swap
		filepath.Join("/sys/fs/cgroup", group, "memory.swap.max"):                    "0",
	}
	found := 0
	for file, want := range limits {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // of the other version
		}
		found++
		if got := strings.TrimSpace(string(text)); got != want {
			t.Errorf("%s is %s, want %s", file, got, want)
		}
	}
	if found != 1 {
		t.Errorf("%d limits were found", found)
	}
}
