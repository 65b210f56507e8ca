// Package vmmstub gives tests a program that plays cloud-hypervisor v53 or v54: the package vmm beside it, built under that program's name, and
// told how to misbehave. It must not know who drives it.
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

	"writ/internal/testenv"
	"writ/internal/vmmstub/vmm"
)

// Settings are what a test wants of the program.
type Settings = vmm.Settings

// The signals by which a test lets the guest of a running program act by itself.
const (
	GuestPowersOff = syscall.SIGUSR1
	GuestReboots   = syscall.SIGUSR2
	GuestFails     = syscall.SIGWINCH // its processor cannot go on
)

// program builds the program once in this process, and keeps it in memory: there is nobody who would clear a file away.
var program = sync.OnceValues(func() ([]byte, error) {
	dir, remove, err := testenv.MakeHome("vmmstub")
	if err != nil {
		return nil, err
	}
	defer func() { _ = remove() }()
	path := filepath.Join(dir, "cloud-hypervisor")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "writ/internal/vmmstub/cmd/cloud-hypervisor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build vmmstub: %w\n%s", err, said)
	}
	return os.ReadFile(path)
})

// Passable returns a directory of a test that every user of the host can go through.
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

// Release is a version of the program that is played.
type Release = vmm.Release

// Releases are those that are played.
var Releases = []Release{vmm.V53, vmm.V54}

// played is the release that tests get which name none.
var played = flag.Int("vmmstub.version", int(vmm.V53), "the release of cloud-hypervisor that vmmstub plays, 53 or 54")

// Played is the release that the flag -vmmstub.version names.
func Played() Release { return Release(*played) }

// Build returns the path of the program, named cloud-hypervisor, in a directory that is this test's alone. Any user may execute it. It plays
// the release that is Played.
func Build(t testing.TB) string {
	t.Helper()
	return BuildOf(t, Played())
}

// BuildOf is Build for a release.
func BuildOf(t testing.TB, release Release) string {
	t.Helper()
	text, err := program()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(Passable(t), "cloud-hypervisor")
	// Another process writes it: a child that this one starts meanwhile would have the file open to write, and nobody could execute it.
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

// Set tells the program at path, and all processes that run it, how to behave from now on. The zero Settings are those of a good day.
func Set(t testing.TB, path string, settings Settings) {
	t.Helper()
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(path), vmm.SettingsName)
	if err := os.WriteFile(file+".new", text, 0o644); err != nil { // the program may run as another user
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// Gate holds the program at a place, and lets a test know that it is there.
type Gate struct {
	Path string // for Settings.Hold and Settings.HoldStart

	t    testing.TB
	once sync.Once
	file *os.File
}

// NewGate makes a gate, closed.
func NewGate(t testing.TB) *Gate {
	t.Helper()
	g := &Gate{t: t, Path: filepath.Join(Passable(t), "gate")}
	if err := syscall.Mkfifo(g.Path, 0o644); err != nil {
		t.Fatal(err)
	}
	return g
}

// Reached returns when the program stands at the gate.
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

// Open lets the program pass that stands at the gate, or comes to it.
func (g *Gate) Open() {
	g.t.Helper()
	g.Reached()
	if err := g.file.Close(); err != nil {
		g.t.Fatal(err)
	}
}
