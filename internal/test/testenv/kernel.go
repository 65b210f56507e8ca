package testenv

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// KernelPackage is the Debian package that depends on a kernel for virtual machines. The kernel is unpacked but not
// installed, because the machine might boot an installed kernel.
const KernelPackage = "linux-image-cloud-amd64"

// KernelVar names the directory with the unpacked kernel package. The default is writ/kernel in the user's cache
// directory.
const KernelVar = "WRIT_TEST_KERNEL"

// FullKernelPackage is the Debian package that depends on a kernel for physical machines, with drivers for the hardware
// that QEMU emulates. FullKernelVar names the directory with the unpacked package. The default is writ/full-kernel in
// the user's cache directory.
const (
	FullKernelPackage = "linux-image-amd64"
	FullKernelVar     = "WRIT_TEST_FULL_KERNEL"
)

// KernelFiles is a kernel for guests of tests.
type KernelFiles struct {
	Image   string // kernel image
	Modules string // directory of its modules
}

// Kernel returns a distribution's kernel for virtual machines: an unpacked kernel, or the kernel of this machine. It
// skips the test like Need.
func Kernel(t testing.TB) KernelFiles {
	t.Helper()
	return findKernel(t, KernelVar, "kernel", KernelPackage, ".ci/run")
}

// FullKernel returns a kernel for physical machines. Only the nightly tier has it.
func FullKernel(t testing.TB) KernelFiles {
	t.Helper()
	return findKernel(t, FullKernelVar, "full-kernel", FullKernelPackage, ".ci/nightly")
}

func findKernel(t testing.TB, variable, cache, of, unpacks string) KernelFiles {
	t.Helper()
	dir := downloads(t, variable, cache)
	for _, root := range []string{dir, "/"} {
		if k, found := kernelIn(root, of); found {
			return k
		}
	}
	lackDownload(t, fmt.Sprintf("no kernel of %s is in %s: %s unpacks one there, or apt-get download the package that it depends on, and dpkg -x", of, dir, unpacks))
	return KernelFiles{}
}

// versions matches the file names of the kernels of a package.
var versions = map[string]*regexp.Regexp{
	KernelPackage: regexp.MustCompile(`-cloud-amd64$`), FullKernelPackage: regexp.MustCompile(`[0-9]-amd64$`),
}

// kernelIn returns the newest kernel of a package below a directory that also has its modules.
func kernelIn(root, of string) (KernelFiles, bool) {
	images, _ := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	slices.SortFunc(images, compareVersions)
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

// versionParts matches the parts of a path that compareVersions compares one by one.
var versionParts = regexp.MustCompile(`[0-9]+|[^0-9]+`)

// compareVersions compares paths that contain versions. It compares numbers by value, so version 10 follows version 9.
func compareVersions(a, b string) int {
	return slices.CompareFunc(versionParts.FindAllString(a, -1), versionParts.FindAllString(b, -1),
		func(a, b string) int {
			if !isDigit(a[0]) || !isDigit(b[0]) {
				return strings.Compare(a, b)
			}
			a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
			return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
		})
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
