package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal/containerd/initprogram"
)

// zombies prints the number of zombies of a container.
const zombies = `grep -l "^State:.Z" /proc/[0-9]*/status 2>/dev/null | wc -l`

// orphans starts processes that the first process of the container inherits, and waits until they have ended.
const orphans = `sleep 0.1 & sleep 0.1 & exit 0`

// withInit returns a fixture on a host with an init program.
func withInit(t *testing.T) *fixture {
	testenv.Need(t, "catatonit")
	return withSettings(t)
}

// copyInit copies the init program of the host to a new directory and makes the driver use it.
func (b *fixture) copyInit() string {
	b.Helper()
	program, err := os.ReadFile(testenv.Need(b, "catatonit"))
	path := filepath.Join(b.TempDir(), "init")
	if err == nil {
		err = os.WriteFile(path, program, 0o755)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.driver.InitProgram = path
	return path
}

// Promise: Networks and containers: With `init`, an init process is the first process of a container. It passes signals
// to the program, reaps zombies and returns the exit code. The container cannot change it.
// How: The program of the host is a read-only mount at /dev/init.
// Also: TestContainerCannotChangeItsInit, TestRunWithInitKeepsTheExitCode, TestUnsafeInitProgramIsRefused.
func TestInitReapsAndForwardsSignals(t *testing.T) {
	b := withInit(t)
	for _, program := range initprogram.Packaged {
		if _, err := initprogram.Find(program); err != nil {
			continue // withInit requires one of them
		}
		t.Run(filepath.Base(program), func(t *testing.T) {
			b := &fixture{t, b.driver, b.daemon, b.host}
			b.driver.InitProgram = program
			args := map[string]any{
				"image": "busybox", "memory_mib": int64(64), "init": true, "user": "web", "read_only": true, "workdir": "/tmp",
				"grace_seconds": int64(20), "stop_signal": "QUIT", "restart": "never",
				"health": map[string]any{"command": []any{"sh", "-c", "pwd"}, "interval_seconds": int64(5)},
				"files":  map[string]any{"/etc/app/conf": map[string]any{"text": "a", "on_change": "HUP"}},
				"command": []any{"sh", "-c",
					`trap "echo got HUP" HUP; trap "echo got QUIT; exit 7" QUIT; echo ready $$; while :; do sleep 0.1; done`},
			}
			b.must("container.create", "web", args)
			b.eventually("it runs", func() bool { return strings.Contains(b.log("web"), "ready") })
			if strings.Contains(b.log("web"), "ready 1\n") {
				t.Errorf("the program is the first process: %s", b.log("web"))
			}
			if got := b.sh("web", `tr '\0' ' ' </proc/1/cmdline`); !strings.HasPrefix(got, "/dev/init -- sh -c trap") {
				t.Errorf("the first process is %q", got)
			}
			if got := b.sh("web", "id -un; pwd; cat /etc/app/conf"); got != "web\n/tmp\na" {
				t.Errorf("a program of exec has %q", got)
			}
			b.sh("web", orphans)
			b.sh("web", "sleep 0.3")
			b.eventually("its orphans are reaped", func() bool { return b.sh("web", zombies) == "0\n" })

			args["files"] = map[string]any{"/etc/app/conf": map[string]any{"text": "b", "on_change": "HUP"}}
			b.must("container.create", "web", args)
			b.eventually("it gets a signal", func() bool { return strings.Contains(b.log("web"), "got HUP") })
			got := b.must("container.stop", "web", map[string]any{"grace_seconds": int64(20)})
			if got["ended"] != "exited" || !strings.Contains(b.log("web"), "got QUIT") {
				t.Errorf("stopped, it %v: %s", got["ended"], b.log("web"))
			}
			b.must("container.delete", "web", nil)
			b.leftNothing("after the deletion")
		})
	}
}

// Without init, the program is the first process. It inherits the orphans of the container.
func TestProgramIsFirstWithoutInit(t *testing.T) {
	b := withInit(t)
	b.must("container.create", "web", map[string]any{
		"image": "busybox", "memory_mib": int64(64), "command": []any{"sh", "-c", "echo ready $$; exec sleep 1000"},
	})
	b.eventually("it runs", func() bool { return strings.Contains(b.log("web"), "ready 1\n") })
	b.sh("web", orphans)
	b.eventually("its orphans are zombies", func() bool { return b.sh("web", zombies) == "2\n" })
	if got := b.sh("web", "ls /dev/init 2>/dev/null || echo missing"); got != "missing\n" {
		t.Errorf("it has %q", got)
	}
}

func TestRunWithInitKeepsTheExitCode(t *testing.T) {
	b := withInit(t)
	for line, want := range map[string]int64{"exit 0": 0, "exit 42": 42, "kill -9 $$": 137, "kill -TERM $$": 143} {
		got := b.must("container.run", fmt.Sprintf("job-%d", want), map[string]any{
			"image": "busybox", "memory_mib": int64(64), "init": true, "check": false,
			"command": []any{"sh", "-c", "echo out; echo err >&2; " + line},
		})
		if got["exit_code"] != want || got["stdout"] != "out\n" || got["stderr"] != "err\n" {
			t.Errorf("%s: %v, want %d", line, got, want)
		}
	}
	got := b.must("container.run", "large", map[string]any{
		"image": "busybox", "memory_mib": int64(32), "init": true, "check": false,
		"command": []any{"sh", "-c", "head -c 100m /dev/zero | tail -c 100m"},
	})
	if got["out_of_memory"] != true {
		t.Errorf("a program that needs too much memory: %v", got)
	}
	b.leftNothing("after the programs")
}

func TestContainerCannotChangeItsInit(t *testing.T) {
	b := withInit(t)
	for _, users := range []string{"of its own", "of the host"} {
		t.Run("users "+users, func(t *testing.T) {
			b := &fixture{t, open(t, b.daemon, t.TempDir()), b.daemon, b.host}
			if users == "of the host" {
				b.driver.IDs, b.driver.IDsAsked = nil, false
			}
			program := b.copyInit()
			before, err := os.ReadFile(program)
			if err != nil {
				t.Fatal(err)
			}
			b.must("container.create", "web", map[string]any{
				"image": "busybox", "memory_mib": int64(64), "init": true, "command": []any{"sleep", "1000"},
			})
			if got := b.sh("web", "id -u"); got != "0\n" {
				t.Fatalf("it runs as %s", got)
			}
			for _, line := range []string{
				"echo x >/dev/init", "echo x >>/dev/init", "echo x >/proc/1/exe", "rm /dev/init", "mv /bin/sh /dev/init",
				"chmod 777 /dev/init", "chown 1 /dev/init", "touch /dev/init", "truncate -s 0 /dev/init",
				"mount -o remount,rw,bind /dev/init", "umount /dev/init",
			} {
				if got := b.sh("web", line+" 2>/dev/null && echo done || echo refused"); got != "refused\n" {
					t.Errorf("%s: %s", line, got)
				}
			}
			if got := b.sh("web", "grep ' /dev/init ' /proc/mounts"); !strings.Contains(got, " ro,") {
				t.Errorf("its mount is %s", got)
			}
			after, err := os.ReadFile(program)
			if err != nil || string(after) != string(before) {
				t.Errorf("the program has changed: %v", err)
			}
			info, err := os.Stat(program)
			if err != nil || info.Mode() != 0o755 {
				t.Errorf("the program has changed: %v, %v", info.Mode(), err)
			}
			b.must("container.delete", "web", nil)
		})
	}
}

// The path of a program changes with its package, also while a container is stopped.
func TestRestartUsesThePresentInitProgram(t *testing.T) {
	b := withInit(t)
	first := b.copyInit()
	args := map[string]any{"image": "busybox", "memory_mib": int64(64), "init": true, "command": waits}
	b.must("container.create", "web", args)
	b.must("container.stop", "web", map[string]any{"grace_seconds": int64(20)})
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	_, err := b.do("container.start", "web", nil)
	if e := writ.AsError(err); e == nil || e.Code != writ.CodeDriverMissing || e.Retryable() || e.Hint == "" {
		t.Errorf("without its init program, a container starts: %v", err)
	}
	b.reopen()
	second := b.copyInit()
	b.must("container.start", "web", nil)
	if got := b.sh("web", "readlink /proc/1/exe"); got != "/dev/init\n" {
		t.Errorf("its first process is %s", got)
	}
	mounted := b.sh("web", "grep ' /dev/init ' /proc/self/mountinfo")
	if !strings.Contains(mounted, "/"+filepath.Base(filepath.Dir(second))+"/init") {
		t.Errorf("it has not the program %s: %s", second, mounted)
	}
	b.must("container.delete", "web", nil)
	b.leftNothing("after the deletion")
}

// Promise: Networks and containers: A node without an init program refuses containers with `init` at once and finally,
// and `writ doctor` shows the package to install.
func TestNodeWithoutInitProgramRefuses(t *testing.T) {
	b := withInit(t)
	b.driver.InitProgram = filepath.Join(t.TempDir(), "missing")
	args := map[string]any{"image": "busybox", "memory_mib": int64(64), "init": true, "command": waits}
	for _, operation := range []string{"container.create", "container.run"} {
		_, err := b.do(operation, "web", args)
		e := writ.AsError(err)
		if e == nil || e.Code != writ.CodeDriverMissing || e.Retryable() || !strings.Contains(e.Hint, "catatonit") {
			t.Errorf("%s: %v", operation, err)
		}
	}
	b.leftNothing("after the refusals")
	if b.driver.Describe().Init {
		t.Error("the node reports an init program")
	}
	args["init"] = false
	b.must("container.create", "web", args)
	args["init"] = true
	if _, err := b.do("container.create", "web", args); writ.CodeOf(err) != writ.CodeDriverMissing {
		t.Errorf("a replacement: %v", err)
	}
	if got := b.handle("web"); got["state"] != running {
		t.Errorf("after a refused replacement it is %v", got["state"])
	}
	b.copyInit()
	if !b.driver.Describe().Init {
		t.Error("the node reports no init program")
	}
	b.must("container.create", "web", args)
	if got := b.sh("web", "readlink /proc/1/exe"); got != "/dev/init\n" {
		t.Errorf("after a replacement its first process is %s", got)
	}
}
