// Package vmmstub gives tests a stub of cloud-hypervisor v53 or v54: a build of package vmm under that program's name,
// with settings for faults. It must not know its callers.
package vmmstub

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub/vmm"
)

// Settings control the behaviour of the program.
type Settings = vmm.Settings

// Signals that make the guest of a running program act.
const (
	GuestPowersOff = syscall.SIGUSR1
	GuestReboots   = syscall.SIGUSR2
	GuestFails     = syscall.SIGWINCH // its CPU fails
)

// program builds the program once per test process. It returns the content, because a file would have to outlive all
// tests, and no test knows that it is the last one.
var program = sync.OnceValues(func() ([]byte, error) {
	dir, remove, err := testenv.MakeHome("vmmstub")
	if err != nil {
		return nil, err
	}
	defer func() { _ = remove() }()
	path := filepath.Join(dir, "cloud-hypervisor")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "writ/internal/test/vmmstub/cmd/cloud-hypervisor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build vmmstub: %w\n%s", err, said)
	}
	return os.ReadFile(path)
})

// Passable returns a test directory that every user of the host can traverse.
func Passable(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Release is a version of cloud-hypervisor that the stub simulates.
type Release = vmm.Release

// Releases are the simulated versions.
var Releases = []Release{vmm.V53, vmm.V54}

// played is the default release of tests.
var played = flag.Int("vmmstub.version", int(vmm.V53),
	"the release of cloud-hypervisor that vmmstub simulates, 53 or 54")

// Played returns the release of the flag -vmmstub.version.
func Played() Release { return Release(*played) }

// Build returns the path of the program, named cloud-hypervisor, in a directory for this test only. Any user may
// execute it. It simulates the release Played.
func Build(t testing.TB) string {
	t.Helper()
	return BuildOf(t, Played())
}

// BuildOf works like Build, for the given release.
func BuildOf(t testing.TB, release Release) string {
	t.Helper()
	text, err := program()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(Passable(t), "cloud-hypervisor")
	// cp writes the file, not this process: a child that this process forks meanwhile would inherit the open
	// descriptor, and then executing the file would fail with ETXTBSY.
	write := exec.Command("cp", "/dev/stdin", path)
	write.Stdin = bytes.NewReader(text)
	if said, err := write.CombinedOutput(); err != nil {
		t.Fatalf("write vmmstub: %v\n%s", err, said)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(path), vmm.VersionName)
	if err := os.WriteFile(file, fmt.Appendln(nil, int(release)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Set changes the settings of the program at path, including running processes. The zero Settings cause no faults.
func Set(t testing.TB, path string, settings Settings) {
	t.Helper()
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(path), vmm.SettingsName)
	// Readable, because the program may run as another user.
	if err := os.WriteFile(file+".new", text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// Gate blocks the program at a certain point until the test opens it.
type Gate struct {
	Path string // for Settings.Hold and Settings.HoldStart

	t    testing.TB
	once sync.Once
	file *os.File
}

// NewGate makes a closed gate.
func NewGate(t testing.TB) *Gate {
	t.Helper()
	g := &Gate{t: t, Path: filepath.Join(Passable(t), "gate")}
	if err := syscall.Mkfifo(g.Path, 0o644); err != nil {
		t.Fatal(err)
	}
	return g
}

// Reached waits until the program is at the gate.
func (g *Gate) Reached() {
	g.t.Helper()
	g.once.Do(func() {
		file, err := os.OpenFile(g.Path, os.O_WRONLY, 0)
		if err != nil {
			g.t.Fatal(err)
		}
		g.file = file
	})
}

// Open waits until the program is at the gate and lets it continue.
func (g *Gate) Open() {
	g.t.Helper()
	g.Reached()
	if err := g.file.Close(); err != nil {
		g.t.Fatal(err)
	}
}
