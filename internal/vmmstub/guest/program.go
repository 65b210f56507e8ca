package guest

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"writ/internal/testenv"
)

// ProgramText begins the line on the console that reports the end of a Program. Nothing follows if the program
// succeeded.
const ProgramText = "guest: the program has ended"

// Program is a program that a guest runs as its only user before it powers off. The console shows its output, and
// control groups of version 2 are mounted.
type Program struct {
	Path string // on this machine; a program that needs libraries finds them among Files
	Args []string

	Kernel  testenv.KernelFiles // testenv.Kernel if zero
	Modules []Module            // loaded in this order before the program starts
	Files   map[string][]byte   // further executable files, by their path in the guest without the first slash
}

// Module is a module of the guest's kernel.
type Module struct {
	Name   string
	Object []byte // not compressed
}

// Build makes the guest of a program. It skips the test as testenv.Kernel does.
func (p Program) Build(t testing.TB) Guest {
	t.Helper()
	kernel := p.Kernel
	if kernel == (testenv.KernelFiles{}) {
		kernel = testenv.Kernel(t)
	}
	text, err := p.initramfs()
	if err != nil {
		t.Fatal(err)
	}
	return Guest{Kernel: kernel.Image, Initramfs: write(t, text)}
}

func (p Program) initramfs() ([]byte, error) {
	text, err := os.ReadFile(p.Path)
	if err != nil {
		return nil, err
	}
	a, err := newRoot(p.Modules)
	if err != nil {
		return nil, err
	}
	a.file("program", text)
	a.file("arguments", []byte(strings.Join(p.Args, "\n")))
	made := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		a.parents(name, made)
		a.file(name, p.Files[name])
	}
	return a.bytes(), nil
}

// parents adds the directories above a file that are not made yet: a kernel creates none by itself.
func (a *archive) parents(name string, made map[string]bool) {
	dir := path.Dir(name)
	if made[dir] {
		return
	}
	a.parents(dir, made)
	made[dir] = true
	a.dir(dir)
}
