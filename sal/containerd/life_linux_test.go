package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	taskv2 "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/ttrpc"
	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/containerd/shim"
	"writ/sal/logfile"
	"writ/sal/saltest"
)

// Promise: Networks and containers: A deleted container leaves no container, layer, image, lease, mount or file; its
// volumes remain.
// How: ids derive from names and are recorded; unused images and imports are deleted with their last user.
// Also: TestAFailedCreateOfAContainerLeavesNoTrace
//
// Promise: Networks and containers: A container gets exactly the CPUs, memory and processes that its call requested.
// How: cgroups limit it, and the test reads them back.
func TestContainerHasRequestedProperties(t *testing.T) {
	for name, root := range map[string]func(t *testing.T) string{
		"overlayfs": func(*testing.T) string { return "" },
		"btrfs": func(t *testing.T) string {
			dir := t.TempDir()
			testenv.NewBtrfs(t, dir, 512)
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, root(t))
			before := traces(t, b.driver, b.daemon, b.host)
			volume := func(name string) map[string]any {
				return map[string]any{"kind": "volume", "name": name, "uid": "u"}
			}
			r := b.request("container.create", "web", map[string]any{
				"image": "busybox", "command": waits, "cpus": "0.25", "memory_mib": int64(64),
				"env": map[string]any{"PLAIN": "a b", "PASSWORD": map[string]any{"secret": "pw@1"}},
				"volumes": []any{
					map[string]any{"volume": volume("data"), "path": "/data"},
					map[string]any{"volume": volume("fixed"), "path": "/fixed", "read_only": true},
				},
			}, map[catalog.Secret]string{"pw@1": "s3cr3t"})
			if _, err := b.driver.Do(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if _, layers, err := inventory(b.driver.in(t.Context()), b.driver.client); err != nil || layers[r.Resource.HostName()+"-1"] != name {
				t.Errorf("it is kept by %v, %v", layers, err)
			}
			for line, want := range map[string]string{
				"hostname":                               "web",
				"echo $FROM_IMAGE $PLAIN ${PASSWORD#s3}": "yes a b cr3t", // the secret itself would be masked
				"cat /etc/hosts | head -n 3":             "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 web",
				"echo kept >/data/x; cat /data/x":        "kept",
				"touch /fixed/x 2>/dev/null || echo no":  "no",
				"ls /sys/class/net":                      "lo",
				"cat /proc/cmdline":                      "",
				"cat /sys/class/net/lo/operstate":        "unknown",
				"ping -c 1 -w 5 127.0.0.1 >&- && echo y": "y",
			} {
				if got := strings.TrimSpace(b.sh("web", line)); got != want {
					t.Errorf("%s: %q, want %q", line, got, want)
				}
			}
			if got, want := limits(t, b.driver.namespace()+"/"+r.Resource.HostName()+"-1"), "25000 100000 67108864 4096"; got != want {
				t.Errorf("its limits are %s, want %s", got, want)
			}

			b.must("container.delete", "web", nil)
			if text, err := os.ReadFile(filepath.Join(b.host, "volumes", "data", "x")); string(text) != "kept\n" {
				t.Errorf("its volume has %q, %v", text, err)
			}
			if diff := cmp.Diff(before, traces(t, b.driver, b.daemon, b.host)); diff != "" {
				t.Errorf("it left something behind:\n%s", diff)
			}
			if left, err := os.ReadDir(filepath.Join(b.driver.Dir, "containers")); len(left) > 0 {
				t.Errorf("it left files: %v, %v", left, err)
			}
		})
	}
}

// limits reads quota, period, memory and processes of a cgroup, in either version of cgroups.
func limits(t *testing.T, cgroup string) string {
	t.Helper()
	var all []string
	for _, files := range [][]string{
		{"cpu/%s/cpu.cfs_quota_us", "%s/cpu.max"}, {"cpu/%s/cpu.cfs_period_us"},
		{"memory/%s/memory.limit_in_bytes", "%s/memory.max"}, {"pids/%s/pids.max", "%s/pids.max"},
	} {
		for _, file := range files {
			if text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", fmt.Sprintf(file, cgroup))); err == nil {
				all = append(all, strings.TrimSpace(string(text)))
			}
		}
	}
	return strings.Join(all, " ")
}

func TestExecReturnsTheEndsOfBothOutputsAndTheCode(t *testing.T) {
	b := newFixture(t, "")
	b.must("container.create", "web", map[string]any{"image": "busybox"})
	got := b.must("container.exec", "web", map[string]any{
		"command": []any{"sh", "-c", `cat; yes 0123456 | head -n 100000; echo "$WHO" >&2; exit 7`},
		"stdin":   strings.Repeat("x", 65536), "env": map[string]any{"WHO": "me"},
	})
	want := strings.Repeat("0123456\n", maxOutput/8)
	if got["stdout"] != want || got["stderr"] != "me\n" || got["exit_code"] != int64(7) {
		t.Errorf("got %d bytes, %q, %v", len(got["stdout"].(string)), got["stderr"], got["exit_code"])
	}
	got = b.must("container.exec", "web", map[string]any{"command": []any{"cat"}, "stdin": "hello"})
	if got["stdout"] != "hello" {
		t.Errorf("cat says %q", got["stdout"])
	}
	if _, err := b.do("container.exec", "web", map[string]any{"command": []any{"no-such-program"}}); writ.CodeOf(err) != writ.CodeArgumentsInvalid {
		t.Errorf("a program that is not there: %v", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := b.driver.Do(ctx, b.request("container.exec", "web", map[string]any{"command": []any{"sleep", "987"}}, nil))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its time is over: %v", err)
	}
	if out := b.sh("web", "cat /proc/[0-9]*/cmdline"); strings.Contains(out, "sleep\x00987") || strings.Contains(out, "sleep?987") {
		t.Errorf("it still runs: %q", out)
	}
	b.must("container.stop", "web", map[string]any{"grace_seconds": int64(0)})
	if _, err := b.do("container.exec", "web", map[string]any{"command": []any{"id"}}); writ.CodeOf(err) != writ.CodeResourceConflict {
		t.Errorf("in a container that is stopped: %v", err)
	}
	b.must("container.delete", "web", nil)
}

func TestStopGivesTimeAndThenNone(t *testing.T) {
	b := newFixture(t, "")
	polite := []any{"sh", "-c", `trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 1000 & wait; done`}
	deaf := []any{"sh", "-c", `trap "" TERM; echo ready; while :; do sleep 1000; done`}
	for name, command := range map[string][]any{"polite": polite, "deaf": deaf} {
		b.must("container.create", name, map[string]any{"image": "busybox", "command": command})
		b.eventually(name, func() bool { return strings.Contains(b.log(name), "ready") })
	}
	b.must("container.stop", "polite", map[string]any{"grace_seconds": int64(600)})
	if log := b.log("polite"); log != "ready\nbye\n" {
		t.Errorf("it says %q", log)
	}
	if v := b.must("container.stop", "deaf", map[string]any{"grace_seconds": int64(1)}); v["state"] != stopped {
		t.Errorf("it is %v", v["state"])
	}
	for _, name := range []string{"polite", "deaf"} {
		if drift, err := b.driver.Keep(t.Context(), saltest.Resource(writ.KindContainer, name)); len(drift) > 0 || err != nil {
			t.Errorf("what somebody stopped is no drift: %v, %v", drift, err)
		}
		b.must("container.delete", name, nil)
	}
}

// log returns the log of a container.
func (b *fixture) log(name string) string {
	b.Helper()
	return b.must("container.logs", name, map[string]any{"lines": int64(1000)})["text"].(string)
}

// Promise: Networks and containers: Containers keep running while containerd or the runner is down and are adopted
// again.
// How: Each has a process of the runtime and a process that stores its output.
func TestAContainerOutlivesDaemonAndRunner(t *testing.T) {
	b := newFixture(t, "")
	b.must("container.create", "web", map[string]any{"image": "busybox", "command": []any{"sh", "-c", "i=0; while :; do echo $i; i=$((i+1)); sleep 0.1; done"}})
	next := b.must("container.logs", "web", nil)["next"].(string)
	first := b.sh("web", "cat /proc/1/stat")
	pid := strings.Fields(first)[21] // start time
	b.daemon.Kill()
	before := b.logSize("web")
	b.eventually("it writes while there is no daemon", func() bool { return b.logSize("web") > before })
	b.daemon.Start()
	if now := strings.Fields(b.sh("web", "cat /proc/1/stat"))[21]; now != pid {
		t.Error("it was started anew")
	}
	b.reopen()
	if now := strings.Fields(b.sh("web", "cat /proc/1/stat"))[21]; now != pid {
		t.Error("another runner started it anew")
	}
	all := b.log("web")
	part := b.must("container.logs", "web", map[string]any{"after": next, "lines": int64(1000)})
	told, last := part["text"].(string), strings.TrimSpace(all[strings.LastIndexByte(strings.TrimSpace(all), '\n')+1:])
	begins, _, _ := strings.Cut(told, "\n")
	if from := strings.Index(all, begins+"\n"); part["lost"] != false || !strings.HasPrefix(told, all[max(from, 0):]) {
		t.Errorf("with other daemon and runner, behind what was read before, it tells %v, and up to %s it wrote %q", part, last, all)
	}

	// The daemon goes away in the middle of an operation, and returns within the driver's patience.
	b.driver.Patience = guard
	away := false
	b.driver.Step = func(step string) {
		if !away && step == "make the process" {
			away = true
			b.daemon.Kill()
		}
	}
	if _, err := b.do("container.create", "db", map[string]any{"image": "busybox"}); !writ.CodeOf(err).Info().Retryable {
		t.Errorf("without a daemon: %s %v", writ.CodeOf(err), err)
	}
	b.driver.Step = nil
	b.daemon.Start()
	if v := b.must("container.create", "db", map[string]any{"image": "busybox"}); v["state"] != running {
		t.Errorf("then it is %v", v["state"])
	}
	for _, name := range []string{"web", "db"} {
		b.must("container.delete", name, nil)
	}
	if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func (b *fixture) logSize(name string) int64 {
	b.Helper()
	info, err := os.Stat(filepath.Join(placeOf(b.driver.Dir, saltest.Resource(writ.KindContainer, name)), saltest.Resource(writ.KindContainer, name).HostName()+"-1.log"))
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

func TestMissingDaemonHasAnInstallHint(t *testing.T) {
	d := &Driver{Connection: Connection{Address: filepath.Join(t.TempDir(), "c.sock"), Patience: time.Millisecond}, Dir: t.TempDir(), Images: fetched{}}
	defer d.Close()
	b := &fixture{TB: t, driver: d}
	_, err := b.do("container.create", "web", map[string]any{"image": "busybox"})
	e, ok := errors.AsType[*writ.Error](err)
	if !ok || e.Code != writ.CodeUnreachable || !strings.HasPrefix(e.Hint, "start it: systemctl start containerd") ||
		!strings.Contains(e.Hint, "apt-get install -y containerd runc") {
		t.Errorf("got %#v", err)
	}
	if all, err := d.List(t.Context()); len(all) > 0 || err != nil {
		t.Errorf("something was made: %v, %v", all, err)
	}
}

// The number of containers does not matter: later reads fail at once for as long as its patience. When the daemon is
// back, the next read finds it.
func TestMissingDaemonIsAwaitedOnce(t *testing.T) {
	b := newFixture(t, "")
	web := saltest.Resource(writ.KindContainer, "web")
	b.must("container.create", "web", map[string]any{"image": "busybox", "command": waits})
	b.daemon.Kill()
	looks := map[string]func() error{
		"observe": func() error { _, err := b.driver.Observe(t.Context(), web); return err },
		"keep":    func() error { _, err := b.driver.Keep(t.Context(), web); return err },
		"usage":   func() error { _, err := b.driver.Usage(t.Context(), web); return err },
		"orphans": func() error { _, err := b.driver.Orphans(t.Context()); return err },
	}
	b.driver.Patience = time.Millisecond
	if err := looks["observe"](); writ.CodeOf(err) != writ.CodeUnreachable {
		t.Fatalf("without a daemon: %v", err)
	}
	b.driver.Patience = 24 * time.Hour
	for name, look := range looks {
		if err := look(); writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(err.Error(), b.daemon.Address) {
			t.Errorf("%s, later: %v", name, err)
		}
	}
	b.daemon.Start()
	for name, look := range looks {
		if err := look(); err != nil {
			t.Errorf("%s, with the daemon back: %v", name, err)
		}
	}
}

// The daemon accepts connections, but does not answer.
func TestSilentDaemonIsAwaitedOnce(t *testing.T) {
	address := filepath.Join(t.TempDir(), "c.sock")
	l, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := &Driver{Connection: Connection{Address: address, Patience: time.Millisecond}, Dir: t.TempDir()}
	defer d.Close()
	if _, err := d.Orphans(t.Context()); writ.CodeOf(err) != writ.CodeUnreachable {
		t.Fatalf("the first look: %v", err)
	}
	d.Patience, d.absent.pause = 24*time.Hour, 24*time.Hour
	if _, err := d.Orphans(t.Context()); writ.CodeOf(err) != writ.CodeUnreachable {
		t.Errorf("the next one: %v", err)
	}
}

// mount returns a volume among the arguments of a container. Its UID equals its name.
func mount(volume, path string) map[string]any {
	return map[string]any{"volume": map[string]any{"kind": "volume", "name": volume, "uid": volume}, "path": path}
}

// vm is a machine that uses a volume exclusively.
type vm struct{ volume writ.UID }

func (m vm) Users(_ context.Context, volume writ.UID) ([]sal.User, error) {
	if volume != m.volume {
		return nil, nil
	}
	return []sal.User{{Owner: sal.Owner{Resource: saltest.Resource(writ.KindMachine, "vm"), UID: "vm"}}}, nil
}

// leaving is a driver of volumes that deletes a volume as soon as a record claims it.
type leaving struct {
	directories
	d *Driver
}

func (l leaving) Volume(ctx context.Context, project writ.ProjectID, volume writ.Ref) (sal.Volume, error) {
	if users, err := l.d.Users(ctx, volume.UID); err != nil || len(users) > 0 {
		return sal.Volume{}, errors.Join(err, writ.Errorf(writ.CodeResourceBusy, "volume %s is just being deleted", volume.Name))
	}
	return l.directories.Volume(ctx, project, volume)
}

func TestVanishingVolumeIsForNoContainer(t *testing.T) {
	b := newFixture(t, "")
	spec := map[string]any{"image": "busybox", "volumes": []any{mount("data", "/data")}, "command": waits}
	volumes := directories{filepath.Join(b.host, "volumes")}
	b.driver.Volumes = leaving{volumes, b.driver}
	if _, err := b.do("container.create", "web", spec); writ.CodeOf(err) != writ.CodeResourceBusy {
		t.Errorf("it was made: %v", err)
	}
	if users, err := b.driver.Users(t.Context(), "data"); err != nil || len(users) > 0 {
		t.Errorf("it was refused, and %v have it, %v", users, err)
	}
	b.driver.Volumes = volumes
	b.must("container.create", "web", spec)
	b.must("container.stop", "web", nil)
	b.driver.Volumes = leaving{volumes, b.driver} // as if a deleted volume came back meanwhile
	if _, err := b.do("container.start", "web", nil); writ.CodeOf(err) != writ.CodeResourceBusy {
		t.Errorf("it was started: %v", err)
	}
}

// vanishing is a driver of images that deletes an image as soon as a record claims it.
type vanishing struct {
	sal.Images
	d *Driver
}

func (v vanishing) Image(ctx context.Context, project writ.ProjectID, image writ.Ref) (sal.Image, error) {
	owner := sal.Owner{Resource: writ.ResourceID{Project: project, Kind: writ.KindImage, Name: image.Name}, UID: "any"}
	if users, err := v.d.ImageUsers(ctx, owner); err != nil || len(users) > 0 {
		return sal.Image{}, errors.Join(err, writ.Errorf(writ.CodeResourceBusy, "image %s is just being deleted", image.Name))
	}
	return v.Images.Image(ctx, project, image)
}

// A delete of the image sees the container, even one in the middle of its creation.
func TestAnImageIsItsContainers(t *testing.T) {
	b := newFixture(t, "")
	image := func(name string) sal.Owner {
		return sal.Owner{Resource: saltest.Resource(writ.KindImage, name), UID: "any"}
	}
	check := func(name string, want bool) {
		t.Helper()
		err := sal.UnusedImage(t.Context(), image(name), []sal.ImageUsers{b.driver})
		if (writ.CodeOf(err) == writ.CodeResourceBusy) != want || want && !strings.Contains(err.Error(), "container web") {
			t.Errorf("%s: %v", name, err)
		}
	}
	images := b.driver.Images
	b.driver.Images = vanishing{images, b.driver}
	if _, err := b.do("container.create", "web", map[string]any{"image": "busybox", "command": waits}); writ.CodeOf(err) != writ.CodeResourceBusy {
		t.Errorf("it was made: %v", err)
	}
	check("busybox", false)
	b.driver.Images = images
	b.must("container.create", "web", map[string]any{"image": "busybox", "command": waits})
	check("busybox", true)
	b.driver.Images = vanishing{images, b.driver}
	if _, err := b.do("container.create", "web", map[string]any{"image": "next", "command": waits}); writ.CodeOf(err) != writ.CodeResourceBusy {
		t.Errorf("it was made anew: %v", err)
	}
	check("busybox", true)
	check("next", false)
	b.driver.Images = images
	b.must("container.create", "web", map[string]any{"image": "next", "command": waits})
	check("busybox", false)
	check("next", true)
	b.must("container.delete", "web", nil)
	check("next", false)
}

func TestContainerStateSurvivesLossAndPause(t *testing.T) {
	b := newFixture(t, "")
	web := saltest.Resource(writ.KindContainer, "web")
	b.must("container.create", "web", map[string]any{
		"image": "busybox", "volumes": []any{mount("data", "/data")}, "command": []any{"sh", "-c", "echo ran >>/data/ran; sleep 1000"},
	})
	has := func(running bool) {
		t.Helper()
		users, err := b.driver.Users(t.Context(), "data")
		if diff := cmp.Diff([]sal.User{{Owner: sal.Owner{Resource: web, UID: "uid-of-web"}, Running: running}}, users); diff != "" || err != nil {
			t.Errorf("who has the volume: %v\n%s", err, diff)
		}
	}
	has(true)
	if users, err := b.driver.Users(t.Context(), "more"); len(users) > 0 || err != nil {
		t.Errorf("another volume: %v, %v", users, err)
	}
	got := b.must("container.exec", "web", map[string]any{"command": []any{"sh", "-c", "sleep 1000 & echo hi"}})
	if got["stdout"] != "hi\n" {
		t.Errorf("a program that leaves something running says %v", got)
	}

	ran := func() string {
		text, err := os.ReadFile(filepath.Join(b.host, "volumes", "data", "ran"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	b.must("container.stop", "web", map[string]any{"grace_seconds": int64(0)})
	has(false)
	ctx := b.driver.in(t.Context())
	j := &job{Driver: b.driver, daemon: b.driver.client, Request: sal.Request{Resource: web, Progress: func(string) {}}}
	if err := j.discard(ctx, nil, web.HostName()+"-1", 0); err != nil {
		t.Fatal(err)
	}
	drift, err := b.driver.Keep(t.Context(), web)
	if err != nil || len(drift) != 1 || ran() != "ran\n" {
		t.Errorf("a stopped container that containerd has lost: %v, %v, and it wrote %q", drift, err, ran())
	}
	b.must("container.start", "web", nil)
	b.eventually("it runs", func() bool { return ran() == "ran\nran\n" })

	c, err := b.driver.client.LoadContainer(ctx, web.HostName()+"-2")
	if err != nil {
		t.Fatal(err)
	}
	task, err := c.Task(ctx, nil)
	if err == nil {
		err = task.Pause(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.must("container.delete", "web", nil)
}

func TestAFailedCreateOfAContainerLeavesNoTrace(t *testing.T) {
	b := newFixture(t, "")
	b.driver.Others = []sal.Users{vm{"alone"}}
	before := traces(t, b.driver, b.daemon, b.host)
	for name, tt := range map[string]struct {
		args map[string]any
		want writ.Code
	}{
		"no image":     {map[string]any{"image": "none"}, writ.CodeResourceUnknown},
		"a disk":       {map[string]any{"image": "disk"}, writ.CodeArgumentsInvalid},
		"no program":   {map[string]any{"image": "busybox", "command": []any{"no-such-program"}}, writ.CodeArgumentsInvalid},
		"no networks":  {map[string]any{"image": "busybox", "networks": []any{map[string]any{"kind": "network", "name": "n", "uid": "u"}}}, writ.CodeDriverMissing},
		"broken image": {map[string]any{"image": "broken"}, writ.CodeArgumentsInvalid},
		"kernel files": {map[string]any{"image": "busybox", "volumes": []any{mount("data", "/proc/self")}}, writ.CodeArgumentsInvalid},
		"one place":    {map[string]any{"image": "busybox", "volumes": []any{mount("data", "/data"), mount("more", "/data")}}, writ.CodeArgumentsInvalid},
		"a machine's":  {map[string]any{"image": "busybox", "volumes": []any{mount("alone", "/data")}}, writ.CodeResourceBusy},
	} {
		if _, err := b.do("container.create", "web", tt.args); writ.CodeOf(err) != tt.want {
			t.Errorf("%s: %s %v, want %s", name, writ.CodeOf(err), err, tt.want)
		}
		if diff := cmp.Diff(before, traces(t, b.driver, b.daemon, b.host)); diff != "" {
			t.Errorf("%s leaves something:\n%s", name, diff)
		}
		if seen, err := b.driver.Observe(t.Context(), saltest.Resource(writ.KindContainer, "web")); seen.Exists || err != nil {
			t.Errorf("%s leaves %+v, %v", name, seen, err)
		}
	}
	// A failed replacement leaves the existing container unchanged.
	b.must("container.create", "web", map[string]any{"image": "busybox"})
	start := strings.Fields(b.sh("web", "cat /proc/1/stat"))[21]
	if _, err := b.do("container.create", "web", map[string]any{"image": "busybox", "command": []any{"no-such-program"}}); err == nil {
		t.Error("the replacement was made")
	}
	if now := strings.Fields(b.sh("web", "cat /proc/1/stat"))[21]; now != start {
		t.Error("it was started anew")
	}
	b.must("container.delete", "web", nil)
}

// Promise: Networks and containers: A container that exits is restarted by its policy with growing pauses, and a
// stopped container stays stopped.
// How: The daemon's events, a record before each stop, pauses from one second to five minutes.
// Also: TestStopGivesTimeAndThenNone.
func TestRunRestartsEndedContainers(t *testing.T) {
	b := newFixture(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	create := func(name, restart string, command ...any) {
		b.must("container.create", name, map[string]any{"image": "busybox", "restart": restart, "command": command})
	}
	create("always", "always", "sh", "-c", "echo ran; sleep 1000")
	create("failing", "on-failure", "sh", "-c", "echo ran; exit 3")
	create("succeeding", "on-failure", "sh", "-c", "echo ran; exit 0")
	create("never", "never", "sh", "-c", "echo ran; exit 3")
	create("stopped", "always", "sh", "-c", "echo ran; sleep 1000")
	ran := func(name string) int { return strings.Count(b.log(name), "ran\n") }
	// A program that is killed before its first line would never write it.
	for _, name := range []string{"always", "succeeding", "never", "stopped"} {
		b.eventually(name+" says that it ran", func() bool { return ran(name) == 1 })
	}
	go func() { done <- b.driver.Run(ctx) }()
	b.must("container.stop", "stopped", map[string]any{"grace_seconds": int64(0)})
	b.killed("always")
	b.eventually("always is started again", func() bool { return ran("always") == 2 })
	b.eventually("failing is started again and again", func() bool { return ran("failing") >= 2 })
	b.daemon.Kill()
	b.daemon.Start()
	b.killed("always")
	b.eventually("always is started again after the daemon was", func() bool { return ran("always") == 3 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	drift, err := b.driver.Keep(t.Context(), saltest.Resource(writ.KindContainer, "always"))
	if len(drift) == 0 || !drift[0].Mended || !strings.Contains(drift[0].What, "; it was restarted") || err != nil {
		t.Errorf("of what it mended meanwhile it says %v, %v", drift, err)
	}
	if drift, err := b.driver.Keep(t.Context(), saltest.Resource(writ.KindContainer, "always")); len(drift) > 0 || err != nil {
		t.Errorf("it says it twice: %v, %v", drift, err)
	}
	for _, name := range []string{"succeeding", "never", "stopped"} {
		if n := ran(name); n != 1 {
			t.Errorf("%s ran %d times", name, n)
		}
	}
	for _, name := range []string{"always", "failing", "succeeding", "never", "stopped"} {
		b.must("container.delete", name, nil)
	}
}

// killed kills a container's process without the driver.
func (b *fixture) killed(name string) {
	b.Helper()
	daemon, err := b.driver.reach(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	c, err := daemon.LoadContainer(b.driver.in(b.Context()), saltest.Resource(writ.KindContainer, name).HostName()+"-1")
	if err != nil {
		b.Fatal(err)
	}
	task, err := c.Task(b.driver.in(b.Context()), nil)
	if err == nil {
		err = task.Kill(b.driver.in(b.Context()), 9)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// Promise: Networks and containers: A container without a process is restored, also if containerd lost it and it has
// no secrets.
// How: The runner compares daemon and record.
func TestKeepRepairsContainersAndNamesOrphans(t *testing.T) {
	b := newFixture(t, "")
	web := saltest.Resource(writ.KindContainer, "web")
	spec := map[string]any{"image": "busybox", "restart": "on-failure"}
	b.must("container.create", "web", spec)
	want := b.must("container.create", "web", spec)
	ctx := b.driver.in(t.Context())
	j := &job{Driver: b.driver, daemon: b.driver.client, Request: sal.Request{Resource: web, Progress: func(string) {}}}

	// As after a reboot: the daemon has the container, but no process.
	if err := j.end(ctx, nil, web.HostName()+"-1", 0); err != nil {
		t.Fatal(err)
	}
	b.mends(web, "its process was gone; it was restarted")
	// An administrator removes it at the daemon.
	if err := j.discard(ctx, nil, web.HostName()+"-1", 0); err != nil {
		t.Fatal(err)
	}
	b.mends(web, "containerd had lost it")
	if diff := cmp.Diff(want, b.must("container.create", "web", spec)); diff != "" {
		t.Errorf("it is not as before:\n%s", diff)
	}

	// Another runner loses its records.
	if err := os.Rename(filepath.Join(b.driver.Dir, "records"), filepath.Join(b.host, "records")); err != nil {
		t.Fatal(err)
	}
	orphans, err := b.driver.Orphans(t.Context())
	id, place, ctr := web.HostName()+"-2", placeOf(b.driver.Dir, web), fmt.Sprintf("ctr -a %s -n %s ", b.driver.Address, b.driver.namespace())
	stray := []sal.Orphan{
		{Kind: "container", Name: id, Of: web.HostName(), Remedy: ctr + "tasks rm -f " + id + "; " + ctr + "containers rm " + id},
		{Kind: "directory", Name: place, Of: web.HostName(), Remedy: "rm -r " + place},
	}
	if diff := cmp.Diff(stray, orphans); diff != "" || err != nil {
		t.Errorf("orphans: %v\n%s", err, diff)
	}
	if err := os.Rename(filepath.Join(b.host, "records"), filepath.Join(b.driver.Dir, "records")); err != nil {
		t.Fatal(err)
	}
	if orphans, err := b.driver.Orphans(t.Context()); len(orphans) > 0 || err != nil {
		t.Errorf("orphans: %v, %v", orphans, err)
	}
	b.must("container.delete", "web", nil)
}

// Promise: Secrets: The log of a container whose secrets containerd has lost is not shown.
func TestLogIsNotShownWithoutSecrets(t *testing.T) {
	b := newFixture(t, "")
	args := map[string]any{
		"image": "busybox", "command": []any{"sh", "-c", "echo $PASSWORD; exec sleep 1000"}, "env": map[string]any{"PASSWORD": aSecret},
	}
	request := b.request("container.create", "web", args, map[catalog.Secret]string{"db@1": "s3cr3t"})
	if _, err := b.driver.Do(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	b.eventually("it writes", func() bool { return b.log("web") == "<secret db>\n" })
	ctx, id := b.driver.in(t.Context()), request.Resource.HostName()+"-1"
	j := &job{Driver: b.driver, daemon: b.driver.client, Request: request}
	if err := j.end(ctx, nil, id, 0); err != nil {
		t.Fatal(err)
	}
	if err := b.driver.client.ContainerService().Delete(ctx, id); err != nil { // as `ctr containers rm`
		t.Fatal(err)
	}
	if o, err := b.do("container.logs", "web", nil); writ.CodeOf(err) != writ.CodeDriverRefused {
		t.Errorf("its log is %v, %v", o.Values["text"], err)
	}
	b.must("container.delete", "web", nil)
	b.leftNothing("after the deletion")
}

// The removal of a process is interrupted at many different moments, like by the end of a runner. The daemon then stops
// halfway: it has forgotten the process, but not its shim.
func TestInterruptedRemovalIsFinished(t *testing.T) {
	b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
	web := saltest.Resource(writ.KindContainer, "web")
	b.must("container.create", "web", map[string]any{"image": "busybox", "restart": "never"})
	ctx := b.driver.in(t.Context())
	j := &job{Driver: b.driver, daemon: b.driver.client, Request: sal.Request{Resource: web, Progress: func(string) {}}}
	half := 0
	for wait := time.Duration(0); half < 2; wait = (wait + time.Millisecond) % (100 * time.Millisecond) {
		task, err := j.task(ctx, web.HostName()+"-1")
		if err == nil {
			err = j.signal(ctx, task, 9, guard)
		}
		if err != nil {
			t.Fatal(err)
		}
		cut, cancel := context.WithTimeout(ctx, wait)
		_, err = task.Delete(cut)
		cancel()
		if now, wrong := inspect(ctx, b.driver.client, web.HostName()+"-1"); err != nil && wrong == nil && now.status == "" && b.shims() > 0 {
			half++
			if half == 1 {
				b.must("container.stop", "web", nil)
				b.eventually("its shim ends", func() bool { return b.shims() == 0 })
			}
		}
		b.must("container.start", "web", nil)
	}
	b.must("container.delete", "web", nil)
	b.eventually("all shims end", func() bool { return b.shims() == 0 })
}

// The daemon forgets a process before it asks the process's shim to end. If its client disappears in between, the shim
// stays.
func TestForgottenShimIsEnded(t *testing.T) {
	for name, finish := range map[string]func(b *fixture){
		"stop":   func(b *fixture) { b.must("container.stop", "web", nil) },
		"delete": func(b *fixture) { b.must("container.delete", "web", nil) },
		"start and delete": func(b *fixture) {
			b.must("container.start", "web", nil)
			b.sh("web", "true")
			b.must("container.delete", "web", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
			b.must("container.create", "web", map[string]any{"image": "busybox", "command": waits, "restart": "never"})
			b.forgetShim(saltest.Resource(writ.KindContainer, "web").HostName() + "-1")
			if b.shims() != 1 {
				t.Fatalf("%d shims run", b.shims())
			}
			finish(b)
			b.eventually("its shim ends", func() bool { return b.shims() == 0 })
		})
	}
}

// forgetShim removes a process from its shim, and the shim from the daemon's files while the daemon does not run.
func (b *fixture) forgetShim(id string) {
	b.Helper()
	ctx := b.driver.in(b.Context())
	j := &job{Driver: b.driver, daemon: b.driver.client}
	task, err := j.task(ctx, id)
	if err == nil {
		err = j.signal(ctx, task, syscall.SIGKILL, guard)
	}
	if err != nil {
		b.Fatal(err)
	}
	conn, err := net.Dial("unix", shim.Socket(b.daemon.Address, b.driver.Namespace, id))
	if err != nil {
		b.Fatal(err)
	}
	c := ttrpc.NewClient(conn)
	defer c.Close()
	if _, err := taskv2.NewTTRPCTaskClient(c).Delete(ctx, &taskv2.DeleteRequest{ID: id}); err != nil {
		b.Fatal(err)
	}
	b.daemon.Kill()
	if err := os.RemoveAll(b.daemon.Bundle(b.driver.Namespace, id)); err != nil {
		b.Fatal(err)
	}
	b.daemon.Start()
}

// shims counts the shims of the daemon.
func (b *fixture) shims() int {
	n := 0
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if text, _ := os.ReadFile(path); bytes.Contains(text, []byte("containerd-shim")) && bytes.Contains(text, []byte(b.daemon.Address)) {
			n++
		}
	}
	return n
}

// The runner dies as soon as it has started a program. No process opens the pipes any more; the shim waits for that and
// blocks all other requests.
//
// Promise: Networks and containers: A runner that dies during `container.exec` or a removal harms no container and
// leaves no process.
// How: Programs of a dead runner are ended and abandoned removals are completed; an unresponsive process counts as
// alive.
// Also: TestInterruptedRemovalIsFinished, TestForgottenShimIsEnded.
func TestAProgramOfADeadRunnerBlocksNoOther(t *testing.T) {
	b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
	b.host = filepath.Join(b.host, "a[b]*?") // these characters must not act as a pattern
	b.driver = open(t, b.daemon, b.host)
	web := saltest.Resource(writ.KindContainer, "web")
	b.must("container.create", "web", map[string]any{
		"image": "busybox", "volumes": []any{map[string]any{"volume": saltest.RefTo(writ.KindVolume, "data"), "path": "/data"}},
	})
	began := strings.Fields(b.sh("web", "cat /proc/1/stat"))[21]
	ctx := b.driver.in(t.Context())
	j := &job{Driver: b.driver, daemon: b.driver.client, Request: sal.Request{Resource: web, Progress: func(string) {}}}
	task, err := j.task(ctx, web.HostName()+"-1")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := task.Spec(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(j.pipes(execPipes), 0o700); err != nil {
		t.Fatal(err)
	}
	process := *spec.Process
	process.Args = []string{"touch", "/data/ran"}
	e, err := task.Exec(ctx, "exec-of-the-dead", &process, func(id string) (cio.IO, error) {
		fifos, err := cio.NewFIFOSetInDir(j.pipes(execPipes), id, false)
		if err != nil {
			return nil, err
		}
		for _, path := range []string{fifos.Stdin, fifos.Stdout, fifos.Stderr} {
			err = errors.Join(err, syscall.Mkfifo(path, 0o600))
		}
		return unopened{fifos.Config}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	cut, cancel := context.WithCancel(ctx) // a deadline would be passed to the shim
	started := make(chan error, 1)
	go func() { started <- e.Start(cut) }()
	ran := filepath.Join(b.host, "volumes", "data", "ran")
	b.eventually("the program ends", func() bool { _, err := os.Stat(ran); return err == nil })
	cancel()
	if err := <-started; err == nil {
		t.Error("it did start")
	}

	b.reopen()
	b.eventually("the daemon knows nothing of it", func() bool {
		now, err := inspect(ctx, j.daemon, web.HostName()+"-1") // takes seconds in this state
		return err == nil && now.status == client.Unknown
	})
	if drift, err := b.driver.Keep(t.Context(), web); len(drift) > 0 || err != nil {
		t.Errorf("it says %v, %v", drift, err)
	}
	if again := strings.Fields(b.sh("web", "cat /proc/1/stat"))[21]; again != began {
		t.Error("the container was started anew")
	}
	b.must("container.delete", "web", nil)
}

// unopened are pipes that no process opens.
type unopened struct{ config cio.Config }

func (u unopened) Config() cio.Config { return u.config }
func (u unopened) Cancel()            {}
func (u unopened) Wait()              {}
func (u unopened) Close() error       { return nil }

func (b *fixture) mends(resource writ.ResourceID, what string) {
	b.Helper()
	drift, err := b.driver.Keep(b.Context(), resource)
	if diff := cmp.Diff([]sal.Drift{{What: what, Mended: true}}, drift); diff != "" || err != nil {
		b.Errorf("keep: %v\n%s", err, diff)
	}
	if drift, err := b.driver.Keep(b.Context(), resource); len(drift) > 0 || err != nil {
		b.Errorf("then it says %v, %v", drift, err)
	}
	if v := b.sh(resource.Name, "echo well"); v != "well\n" {
		b.Errorf("it says %q", v)
	}
}

// Promise: Networks and containers: The output of a container uses at most 8 MiB of the node; excess output is
// dropped.
// How: A process per container rotates two files, with or without a runner.
// Also: TestStuckFullLogStaysUnchanged.
func TestALogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := &rotated{log: logfile.Log{Path: path}, most: 1000}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for i := range 1000 {
		line := []byte("line " + strconv.Itoa(i) + "\n")
		all.Write(line)
		if _, err := l.Write(line); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(path + "*")
		if err != nil || len(files) > 2 {
			t.Fatalf("there are %v, %v", files, err)
		}
		for _, name := range files {
			if info, err := os.Stat(name); err == nil && info.Size() > 1000 {
				t.Fatalf("%s has %d bytes", name, info.Size())
			}
		}
	}
	l.file.Close()
	for _, n := range []int64{1, 10, 100} {
		got, err := l.log.Part(&catalog.LogPart{Lines: n})
		lines := strings.SplitAfter(all.String(), "\n")
		if want := strings.Join(lines[1000-n:], ""); got.Text != want || err != nil {
			t.Errorf("the last %d lines: %q, %v", n, got.Text, err)
		}
	}
	// A new logger appends to the file of the previous one.
	again := &rotated{log: logfile.Log{Path: path}, most: 1000}
	if err := again.open(); err != nil {
		t.Fatal(err)
	}
	defer again.file.Close()
	if again.size != l.size || again.size == 0 {
		t.Errorf("it goes on at %d, not at %d", again.size, l.size)
	}
}

// A secret in the environment that the container writes to its log is replaced by its name, even if it is read in two
// parts. A replacement of the container has another log.
//
// Promise: Networks and containers: The log of a container shows no secret of its environment, also if it is written
// or read in pieces.
// How: Values come from containerd's record of the container; no part begins or ends within a value.
// Also: TestALogIsReadAsItWasWritten.
func TestLogMasksEnvironmentSecrets(t *testing.T) {
	b := newFixture(t, "")
	make := func(command string) {
		r := b.request("container.create", "web", map[string]any{
			"image": "busybox", "command": []any{"sh", "-c", command}, "env": map[string]any{"PW": map[string]any{"secret": "pw@1"}, "A": "b"},
		}, map[catalog.Secret]string{"pw@1": "s3cr3t"})
		if _, err := b.driver.Do(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	make(`echo $PW; printf "again: s3c"; trap "exit 0" TERM; while :; do sleep 1000 & wait; done`)
	resource, next := saltest.Resource(writ.KindContainer, "web"), ""
	for _, want := range []string{catalog.Secret("pw@1").String() + "\nagain: ", catalog.Secret("pw@1").String() + ".\n"} {
		told := ""
		b.eventually("it tells "+want, func() bool {
			part := b.must("container.logs", "web", map[string]any{"after": next})
			told, next = told+part["text"].(string), part["next"].(string)
			if strings.Contains(told, "s3c") || len(told) > len(want) {
				t.Fatalf("it tells %q", told)
			}
			return told == want
		})
		// The beginning of a possible secret does not count as new output.
		if more, err := b.driver.Written(t.Context(), resource, next); more || err != nil {
			t.Errorf("behind %q there is more, %v", told, err)
		}
		b.sh("web", "printf 'r3t.\n' > /proc/1/fd/1")
	}
	make("echo another")
	b.eventually("the new one has written", func() bool { return strings.Contains(b.log("web"), "another") })
	if part := b.must("container.logs", "web", map[string]any{"after": next}); part["lost"] != true || part["text"] != "another\n" {
		t.Errorf("of another container it tells %v", part)
	}
	b.must("container.delete", "web", nil)
}

// Promise: Networks and containers: The output of container.exec shows no secret that the program received in its
// environment or as its input.
// How: The node replaces the values before it reports the result.
// Also: TestEndOfATextRevealsNoSecret.
func TestExecMasksSecrets(t *testing.T) {
	b := newFixture(t, "")
	known := map[catalog.Secret]string{"pw@1": "s3cr3t-0f-th3-c0nta1n3r", "own@2": "0f-th3-pr0gram", "in@1": "0f-th3-input", "pin@1": "123"}
	secret := func(name string) any { return map[string]any{"secret": name} }
	do := func(operation string, args map[string]any) map[string]any {
		t.Helper()
		r := b.request(operation, "web", args, known)
		o, err := b.driver.Do(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return o.Values
	}
	do("container.create", map[string]any{"image": "busybox", "command": waits, "env": map[string]any{"PW": secret("pw@1"), "PIN": secret("pin@1")}})
	got := do("container.exec", map[string]any{
		"command": []any{"sh", "-c", `echo "a $PW b"; cat; echo " $PIN"; echo "$OWN" >&2`},
		"env":     map[string]any{"OWN": secret("own@2")}, "stdin": secret("in@1"),
	})
	if want := fmt.Sprintf("a %s b\n%s 123\n", catalog.Secret("pw@1"), catalog.Secret("in@1")); got["stdout"] != want {
		t.Errorf("it writes %q", got["stdout"])
	}
	if got["stderr"] != catalog.Secret("own@2").String()+"\n" {
		t.Errorf("it reports %q", got["stderr"])
	}
	got = do("container.exec", map[string]any{"command": []any{"sh", "-c", `yes "$PW" | head -n 5000; printf "%s" "$PW"`}})
	text := got["stdout"].(string)
	if len(text) > maxOutput || len(text) < maxOutput/4 || strings.ContainsAny(strings.ReplaceAll(text, "pw@1", ""), "0123456789") {
		t.Errorf("of a long output it keeps %d bytes, which begin with %.60q and end with %q", len(text), text, text[max(0, len(text)-60):])
	}
	do("container.delete", nil)
}

// Output is dropped while a full file cannot be put aside. The positions of later output are correct.
func TestStuckFullLogStaysUnchanged(t *testing.T) {
	dir := t.TempDir()
	l := &rotated{log: logfile.Log{Path: filepath.Join(dir, "log")}, most: 10}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	inTheWay := filepath.Join(dir, "log.0-8", "x")
	if err := os.MkdirAll(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	write("one two\n")
	write("three\n")
	if err := os.RemoveAll(filepath.Dir(inTheWay)); err != nil {
		t.Fatal(err)
	}
	write("four\n")
	defer l.file.Close()
	got, err := l.log.Part(&catalog.LogPart{Lines: 10})
	if got.Text != "one two\nfour\n" || err != nil {
		t.Errorf("it has %q, %v", got.Text, err)
	}
}

func TestOutputIsCutAtCharacters(t *testing.T) {
	for in, want := range map[string]string{
		"abc": "abc", "": "", "\x9f\x98\x80x": "x", "a\xffb\x00": "a?b?", "ü": "ü",
	} {
		if got := printable([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestBusyContainerDelaysNoRestart(t *testing.T) {
	b := newFixture(t, "")
	b.must("container.create", "busy", map[string]any{"image": "busybox", "command": waits, "volumes": []any{mount("data", "/data")}})
	b.must("container.create", "web", map[string]any{"image": "busybox", "command": waits})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	r := b.request("container.exec", "busy", map[string]any{"command": []any{"sh", "-c", "touch /data/began; sleep 1000"}}, nil)
	go func() {
		defer close(ended)
		_, _ = b.driver.Do(ctx, r)
	}()
	defer func() { cancel(); <-ended }()
	b.eventually("the program runs", func() bool {
		_, err := os.Stat(filepath.Join(b.host, "volumes", "data", "began"))
		return err == nil
	})
	b.runs() // scans both containers first
	kill(b, "web")
	b.eventually("the other container is restarted", func() bool {
		v := b.handle("web")
		return v["last_exit_code"] == int64(137) && v["state"] == running
	})
}

// kill kills the process of a container that was never replaced.
func kill(b *fixture, name string) {
	b.Helper()
	ctx := b.driver.in(b.Context())
	task, err := (&job{Driver: b.driver, daemon: b.driver.client}).task(ctx, saltest.Resource(writ.KindContainer, name).HostName()+"-1")
	if err == nil {
		err = task.Kill(ctx, syscall.SIGKILL)
	}
	if err != nil {
		b.Fatal(err)
	}
}
