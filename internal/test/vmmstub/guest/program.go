package guest

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"writ/internal/test/testenv"
)

// ProgramText is the line on the console that reports the end of a Program. If the program failed, the error follows on
// the same line.
const ProgramText = "guest: the program has ended"

// Program is the only program of a guest. The guest powers off when the program ends. The console shows its output, and
// version 2 control groups are mounted.
type Program struct {
	Path string // on the host; libraries for the program must be in Files
	Args []string

	Kernel  testenv.KernelFiles // zero means testenv.Kernel
	Modules []Module            // loaded in this order before the program starts
	Files   map[string][]byte   // further executable files, by path in the guest without leading slash
}

// Module is a module of the guest's kernel.
type Module struct {
	Name   string
	Object []byte // uncompressed
}

// Build makes the guest of a program. It skips the test under the same conditions as testenv.Kernel.
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

// parents adds the missing directories above a file, because the kernel does not create them.
func (a *archive) parents(name string, made map[string]bool) {
	dir := path.Dir(name)
	if made[dir] {
		return
	}
	a.parents(dir, made)
	made[dir] = true
	a.dir(dir)
}
