package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// ImagePackages lists the Debian packages with the programs of node images and the libraries that the programs need.
// The manual has the same list. A kernel package and ImageParts complete it.
var ImagePackages = []string{
	"containerd", "runc", "btrfs-progs", "e2fsprogs", "redis-tools", "libatomic1", "libblkid1", "libc6", "libcap2",
	"libcom-err2", "libext2fs2", "libgcc-s1", "libgcrypt20", "libgpg-error0", "libjemalloc2", "liblz4-1", "liblzf1",
	"liblzma5", "libseccomp2", "libssl3", "libstdc++6", "libsystemd0", "libudev1", "libuuid1", "libzstd1",
}

// ImageParts lists the further packages of each node image, except the kernel.
var ImageParts = []string{"systemd-boot-efi"}

// UnpackedPackages lists Debian packages with files that tests need. They are unpacked but not installed: the test
// machine must not use their firmware, loaders and services.
var UnpackedPackages = []string{"ovmf", "systemd-boot-efi", "kmod", "cloud-init", "python3-yaml"}

// Files in UnpackedPackages.
const (
	FirmwareCode = "usr/share/OVMF/OVMF_CODE_4M.fd" // code of the UEFI firmware
	FirmwareVars = "usr/share/OVMF/OVMF_VARS_4M.fd" // initial variables of the UEFI firmware
	EFIStub      = "usr/lib/systemd/boot/efi/linuxx64.efi.stub"
	Kmod         = "bin/kmod" // acts as depmod if started under that name
	CloudInit    = "usr/lib/python3/dist-packages/cloudinit/user_data.py"
)

const (
	// PackagesVar names the directory with ImagePackages. The default is writ/packages in the user's cache directory.
	PackagesVar = "WRIT_TEST_PACKAGES"
	// UnpackedVar names the directory with UnpackedPackages. The default is writ/boot in the user's cache directory.
	UnpackedVar = "WRIT_TEST_BOOT"
)

// Packages returns a directory with the packages of a node image. It skips the test like Need.
func Packages(t testing.TB) string {
	t.Helper()
	dir := downloads(t, PackagesVar, "packages")
	if files, _ := filepath.Glob(filepath.Join(dir, "*.deb")); len(files) > len(ImagePackages)+len(ImageParts) {
		return dir
	}
	lackDownload(t, fmt.Sprintf(
		"the packages of node images are not in %s: .ci/nightly downloads them, or apt-get download %v %v and a kernel",
		dir, ImageParts, ImagePackages))
	return ""
}

// Unpacked returns the path of a file in UnpackedPackages, unpacked or on this machine. It skips the test like Need.
func Unpacked(t testing.TB, file string) string {
	t.Helper()
	dir := downloads(t, UnpackedVar, "boot")
	// Later releases have all files below usr.
	for _, path := range []string{filepath.Join(dir, file), filepath.Join(dir, "usr", file), filepath.Join("/", file)} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	lackDownload(t, fmt.Sprintf("%s is not in %s: .ci/run unpacks %v there, or apt-get download them, and dpkg -x", file,
		dir, UnpackedPackages))
	return ""
}

// downloads returns the directory that a variable names, by default the one in the user's cache directory.
func downloads(t testing.TB, variable, name string) string {
	t.Helper()
	if dir := os.Getenv(variable); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "writ", name)
}

// lackDownload skips the test like Need. Only machines with the architecture of node images must have the downloads.
func lackDownload(t testing.TB, text string) {
	t.Helper()
	if os.Getenv(RequireVar) == "all" && runtime.GOARCH == "amd64" {
		t.Fatal(text)
	}
	note(t, text)
	t.Skip(text)
}
