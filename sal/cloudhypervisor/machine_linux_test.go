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
	"writ/sal"
	"writ/sal/saltest"
)

// What cloud-hypervisor does with what is left out changes from version to version.
func TestNothingIsLeftToDefaults(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
		b.must("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
		v, err := b.attend(b.record("web"))
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

func TestConsoleKeepsWhatWasBeforeTheLastStartAndHasBounds(t *testing.T) {
	b := newBench(t)
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
	if err := os.WriteFile(path, []byte(strings.Repeat("a line that is not short\n", (maxConsole+1<<20)/25)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.trimAll()
	info, err := os.Stat(path)
	if err != nil || occupied(info) > keepConsole+1<<20 || info.Size() < maxConsole {
		t.Errorf("trimmed it occupies %d of %d bytes, %v", occupied(info), info.Size(), err)
	}
	if text := said(); !strings.HasPrefix(text, "a line that is not short\n") {
		t.Errorf("trimmed it says %q", text)
	}
}

func TestTailIsBoundedAndForgivesMissingFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path, []byte("\x00\x00a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for lines, want := range map[int]string{1: "b\n", 2: "a\nb\n", 100: "a\nb\n"} {
		if got := tail([]string{filepath.Join(dir, "none"), path}, lines); got != want {
			t.Errorf("%d lines: %q", lines, got)
		}
	}
}

func TestOnlyWhatIsLeftIsAnOrphan(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
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
		want := []sal.Orphan{{Kind: "process", Name: strconv.Itoa(r.Own.Process.PID)}, {Kind: "directory", Name: b.dirOf(machine("web"))}}
		groups, _ := b.groups().All()
		for _, path := range groups {
			want = slices.Insert(want, 0, sal.Orphan{Kind: "cgroup", Name: path})
		}
		if diff := cmp.Diff(want, orphans); diff != "" || err != nil {
			t.Errorf("orphans: %v\n%s", err, diff)
		}
	})
}

// A socket that nobody listens at is what a crash leaves; one that somebody listens at is not ours to take.
func TestListenerIsWhoListens(t *testing.T) {
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
		t.Errorf("nobody any more: %d, %v", pid, err)
	}
	if pid, err := listener(t.TempDir()); err == nil && pid != 0 {
		t.Errorf("a directory: %d, %v", pid, err)
	}
}
