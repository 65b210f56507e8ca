package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// KernelPackage is the Debian package that leads to a kernel for virtual machines. It is unpacked and not installed: a kernel that is
// installed is what the machine may start the next time.
const KernelPackage = "linux-image-cloud-amd64"

// KernelVar names the directory in which the kernel's package was unpacked. It is writ/kernel in the user's directory of caches if it is
// not set.
const KernelVar = "WRIT_TEST_KERNEL"

// KernelFiles are a kernel for guests of tests.
type KernelFiles struct {
	Image   string // the file that is started
	Modules string // the directory of its modules
}

// Kernel finds a distribution's kernel for virtual machines: one that was unpacked, or that of this machine. It skips the test as Need does.
func Kernel(t testing.TB) KernelFiles {
	t.Helper()
	dir := os.Getenv(KernelVar)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "writ", "kernel")
	}
	for _, root := range []string{dir, "/"} {
		if k, found := kernelIn(root); found {
			return k
		}
	}
	text := fmt.Sprintf("no kernel of %s is in %s: .ci/run unpacks one there, or apt-get download the package that it depends on, and dpkg -x", KernelPackage, dir)
	if os.Getenv(RequireVar) == "all" && runtime.GOARCH == "amd64" {
		t.Fatal(text)
	}
	note(t, text)
	t.Skip(text)
	return KernelFiles{}
}

// kernelIn finds the newest kernel below a directory that has its modules as well.
func kernelIn(root string) (KernelFiles, bool) {
	images, _ := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*-cloud-amd64"))
	for _, image := range slices.Backward(images) {
		modules := filepath.Join(root, "lib", "modules", strings.TrimPrefix(filepath.Base(image), "vmlinuz-"))
		if info, err := os.Stat(modules); err == nil && info.IsDir() {
			return KernelFiles{image, modules}, true
		}
	}
	return KernelFiles{}, false
}
