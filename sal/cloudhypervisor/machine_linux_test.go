package cloudhypervisor

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/diskspace"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/saltest"
)

// The defaults of cloud-hypervisor differ between versions.
func TestEverySettingIsExplicit(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.must("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
		v, err := b.openProcess(b.record("web"))
		if err != nil || v == nil {
			t.Fatal(err)
		}
		defer v.release()
		info, err := v.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := info.Config
		for _, d := range c.Disks {
			if d.ID == "" || d.ImageType != "Raw" || d.Readonly != (d.ID == seedID) {
				t.Errorf("it has the disk %+v", d)
			}
		}
		if len(c.Disks) != 2 || c.CPUs.Nested || c.Console.Mode != "Off" || c.Serial.Mode != "File" || c.Payload.Cmdline != "console=ttyS0 reboot=k panic=1 root=/dev/vda rw" {
			t.Errorf("it is %+v", c)
		}
	})
}

// Promise: Machines and the overlay: The output of a guest and its process cannot fill the disk while a runner is
// present: a console has 8 MiB twice, the process 1 MiB.
// How: The runner checks every second and frees the beginning of the file.
// Also: TestGuestRebootIsReportedOnce.
func TestConsoleKeepsBoundedHistory(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", machineSpec)
	said := func() string {
		return b.must("machine.console", "web", map[string]any{"lines": int64(2)})["text"].(string)
	}
	if text := said(); !strings.Contains(text, "vmmstub") {
		t.Errorf("it says %q", text)
	}
	path := filepath.Join(b.dirOf(machine("web")), consoleName)
	if err := os.WriteFile(path, []byte("one\ntwo\xff\nthree"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.must("machine.stop", "web", nil)
	if diff := cmp.Diff("two?\nthree", said()); diff != "" {
		t.Error(diff)
	}
	next := b.must("machine.console", "web", nil)["next"].(string)
	const line = "a line that is not short\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, (maxConsole+1<<20)/len(line))), 0o600); err != nil {
		t.Fatal(err)
	}
	b.trimAll()
	info, err := os.Stat(path)
	if err != nil || diskspace.Occupied(info) > keepConsole+1<<20 || info.Size() < maxConsole {
		t.Errorf("trimmed it occupies %d of %d bytes, %v", diskspace.Occupied(info), info.Size(), err)
	}
	if text := said(); text != line+line {
		t.Errorf("console after the trim = %q", text)
	}
	// A reader with an old position is notified of the gap, and gets the rest in whole lines.
	left := int64(0)
	for more, lost := true, true; more; lost = false {
		part := b.must("machine.console", "web", map[string]any{"after": next, "lines": int64(1000)})
		text := part["text"].(string)
		if part["lost"] != lost || strings.ReplaceAll(text, line, "") != "" {
			t.Fatalf("lost = %v, text = %.100q", part["lost"], text)
		}
		left += int64(len(text))
		next, more = part["next"].(string), part["more"].(bool)
	}
	if left < keepConsole-int64(len(line)) || left > keepConsole+1<<20 {
		t.Errorf("%d bytes are left", left)
	}
	b.must("machine.start", "web", nil)
	if part := b.must("machine.console", "web", map[string]any{"after": next}); part["lost"] != false || !strings.Contains(part["text"].(string), "vmmstub") {
		t.Errorf("started anew: %v", part)
	}
}

// Commas, quotes and brackets are allowed in the path of a data directory.
//
// Promise: Machines and the overlay: The path of a data directory may contain commas, quotes and brackets.
// How: Events go to a descriptor; paths are never used as patterns.
func TestDirectoryMayContainSeparators(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.Dir = filepath.Join(b.Dir, `a,b"[`)
		b.must("machine.create", "web", machineSpec)
		b.keeps("web", "", false)
		b.must("machine.delete", "web", nil)
		b.empty()
	})
}

func TestTailForgivesMissingFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path, []byte("\x00\x00a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for lines, want := range map[int]string{1: "b\n", 2: "a\nb\n", 100: "a\nb\n"} {
		if got := tail(path, lines); got != want {
			t.Errorf("%d lines: %q", lines, got)
		}
	}
	if got := tail(filepath.Join(dir, "none"), 1); got != "" {
		t.Errorf("of no file: %q", got)
	}
}

func TestOnlyLeftoversAreOrphans(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.must("machine.create", "web", machineSpec)
		if orphans, err := b.Orphans(t.Context()); err != nil || len(orphans) > 0 {
			t.Errorf("orphans: %v, %v", orphans, err)
		}
		r := b.record("web")
		if err := b.records().Remove(r.Resource); err != nil {
			t.Fatal(err)
		}
		reader := exec.Command("tail", "-f", filepath.Join(b.dirOf(machine("web")), eventsName(r.Own.Process.Launch)))
		if err := reader.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = reader.Process.Kill(), reader.Wait() }()
		orphans, err := b.Orphans(t.Context())
		pid, dir, of := strconv.Itoa(r.Own.Process.PID), b.dirOf(machine("web")), r.Resource.HostName()
		want := []sal.Orphan{{Kind: "process", Name: pid, Of: of, Remedy: "kill " + pid}, {Kind: "directory", Name: dir, Of: of, Remedy: "rm -r " + dir}}
		groups, _ := b.groups().All()
		for _, path := range groups {
			want = slices.Insert(want, 1, sal.Orphan{Kind: "cgroup", Name: path, Of: of, Remedy: "rmdir " + path})
		}
		if diff := cmp.Diff(want, orphans); diff != "" || err != nil {
			t.Errorf("orphans: %v\n%s", err, diff)
		}
		testenv.Empties(t, saltest.Remedies(t, b.Driver))
	})
}

// A crash leaves a socket without a listener. A socket with a listener belongs to another process.
func TestListenerReturnsTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if pid, err := listener(path); pid != 0 || err != nil {
		t.Errorf("nobody: %d, %v", pid, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if pid, err := listener(path); pid != 0 || err != nil {
		t.Errorf("listener of a closed socket = %d, %v, want none", pid, err)
	}
	if pid, err := listener(t.TempDir()); err == nil && pid != 0 {
		t.Errorf("a directory: %d, %v", pid, err)
	}
}
