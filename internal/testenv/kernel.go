package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// FullKernelPackage is the Debian package that leads to a kernel for physical machines, and FullKernelVar what KernelVar is for the other one. It has
// drivers of hardware that QEMU plays as well. writ/full-kernel in the user's directory of caches is where it is looked for.
const (
	FullKernelPackage = "linux-image-amd64"
	FullKernelVar     = "WRIT_TEST_FULL_KERNEL"
)

// KernelFiles are a kernel for guests of tests.
type KernelFiles struct {
	Image   string // the file that is started
	Modules string // the directory of its modules
}

// Kernel finds a distribution's kernel for virtual machines: one that was unpacked, or that of this machine. It skips the test as Need does.
func Kernel(t testing.TB) KernelFiles {
	t.Helper()
	return findKernel(t, KernelVar, "kernel", KernelPackage, ".ci/run")
}

// FullKernel finds one for physical machines. The nightly tier has it.
func FullKernel(t testing.TB) KernelFiles {
	t.Helper()
	return findKernel(t, FullKernelVar, "full-kernel", FullKernelPackage, ".ci/nightly")
}

func findKernel(t testing.TB, variable, cache, of, unpacks string) KernelFiles {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		caches, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(caches, "writ", cache)
	}
	for _, root := range []string{dir, "/"} {
		if k, found := kernelIn(root, of); found {
			return k
		}
	}
	text := fmt.Sprintf("no kernel of %s is in %s: %s unpacks one there, or apt-get download the package that it depends on, and dpkg -x", of, dir, unpacks)
	if os.Getenv(RequireVar) == "all" && runtime.GOARCH == "amd64" {
		t.Fatal(text)
	}
	note(t, text)
	t.Skip(text)
	return KernelFiles{}
}

// versions are those of the kernels of a package.
var versions = map[string]*regexp.Regexp{
	KernelPackage: regexp.MustCompile(`-cloud-amd64$`), FullKernelPackage: regexp.MustCompile(`[0-9]-amd64$`),
}

// kernelIn finds the newest kernel of a package below a directory that has its modules as well.
func kernelIn(root, of string) (KernelFiles, bool) {
	images, _ := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	for _, image := range slices.Backward(images) {
		if !versions[of].MatchString(image) {
			continue
		}
		modules := filepath.Join(root, "lib", "modules", strings.TrimPrefix(filepath.Base(image), "vmlinuz-"))
		if info, err := os.Stat(modules); err == nil && info.IsDir() {
			return KernelFiles{image, modules}, true
		}
	}
	return KernelFiles{}, false
}
