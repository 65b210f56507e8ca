// Package guest makes a real but small guest: the kernel of a distribution, and an initramfs with modules for virtual
// machines and its own first process. It must not know which program runs it.
package guest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"writ/internal/test/testenv"
)

// modules are the modules of the initramfs, in load order.
var modules = []string{"virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci",
	"virtio_blk",
	"failover", "net_failover", "virtio_net", "button", "evdev", "nls_cp437", "nls_ascii", "fat", "vfat"}

// Cmdline is the minimal command line of a kernel: quiet, console on the serial port, an immediate reset after a panic.
// It disables a check of timers at boot, which fails on a busy host.
const Cmdline = "console=ttyS0 quiet panic=-1 no_timer_check"

// UpText is in the line that a running guest writes to its console, after its name.
const UpText = "is up"

// Guest holds the boot files of a machine.
type Guest struct {
	Kernel    string // path
	Initramfs string // path
}

// initramfs is built once per test process.
var initramfs struct {
	sync.Mutex
	text []byte
}

// Build makes a guest for a test. It skips the test under the same conditions as testenv.Kernel.
func Build(t testing.TB) Guest {
	t.Helper()
	kernel := testenv.Kernel(t)
	initramfs.Lock()
	defer initramfs.Unlock()
	if initramfs.text == nil {
		text, err := build(kernel.Modules)
		if err != nil {
			t.Fatal(err)
		}
		initramfs.text = text
	}
	return Guest{Kernel: kernel.Image, Initramfs: write(t, initramfs.text)}
}

// build makes an initramfs with modules from a directory.
func build(dir string) ([]byte, error) {
	paths, err := find(dir)
	if err != nil {
		return nil, err
	}
	var all []Module
	for _, name := range modules {
		text, err := os.ReadFile(paths[name])
		if err != nil {
			return nil, fmt.Errorf("read the module %s: %w", name, err)
		}
		all = append(all, Module{name, text})
	}
	a, err := newRoot(all)
	if err != nil {
		return nil, err
	}
	return a.bytes(), nil
}

// newRoot returns an archive with the first process and the modules that it loads, in this order.
func newRoot(modules []Module) (*archive, error) {
	first, err := buildInit()
	if err != nil {
		return nil, err
	}
	a := &archive{}
	for _, name := range []string{"dev", "proc", "sys", "mnt", "tmp", "modules"} {
		a.dir(name)
	}
	a.device("dev/console", 5, 1)
	a.file("init", first)
	var order strings.Builder
	for _, m := range modules {
		fmt.Fprintln(&order, m.Name)
		a.file("modules/"+m.Name+".ko", m.Object)
	}
	a.file("modules/order", []byte(order.String()))
	return a, nil
}

// write writes an initramfs to a file of the test and returns its path.
func write(t testing.TB, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "initramfs")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// find returns the paths of the modules below a directory, by module name.
func find(dir string) (map[string]string, error) {
	paths := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if name, found := strings.CutSuffix(filepath.Base(path), ".ko"); found {
			paths[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	return paths, err
}

// buildInit builds the first process.
func buildInit() ([]byte, error) {
	dir, remove, err := testenv.MakeHome("guest")
	if err != nil {
		return nil, err
	}
	defer func() { _ = remove() }()
	path := filepath.Join(dir, "init")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "writ/internal/test/vmmstub/guest/init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the guest's first process: %w\n%s", err, said)
	}
	return os.ReadFile(path)
}
