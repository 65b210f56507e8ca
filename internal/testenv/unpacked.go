package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// UnpackedPackages lists Debian packages with files that tests need. They are unpacked and not installed: a machine that runs tests must not
// start to use their firmware, loaders and services.
var UnpackedPackages = []string{"ovmf", "systemd-boot-efi", "kmod", "cloud-init", "python3-yaml"}

// UnpackedVar names the directory in which these packages were unpacked. It is writ/boot in the user's directory of caches if it is not set.
const UnpackedVar = "WRIT_TEST_BOOT"

// The files of these packages.
const (
	FirmwareCode = "usr/share/OVMF/OVMF_CODE_4M.fd" // of a UEFI machine
	FirmwareVars = "usr/share/OVMF/OVMF_VARS_4M.fd" // what it keeps, at first
	EFIStub      = "usr/lib/systemd/boot/efi/linuxx64.efi.stub"
	Kmod         = "bin/kmod" // which is depmod if it is started by that name
	CloudInit    = "usr/lib/python3/dist-packages/cloudinit/user_data.py"
)

// Unpacked returns the path of a file of these packages: unpacked, or of this machine. It skips the test as Need does.
func Unpacked(t testing.TB, file string) string {
	t.Helper()
	dir := os.Getenv(UnpackedVar)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "writ", "boot")
	}
	for _, path := range []string{filepath.Join(dir, file), filepath.Join(dir, "usr", file), filepath.Join("/", file)} { // later releases have all below usr
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	text := fmt.Sprintf("%s is not in %s: .ci/run unpacks %v there, or apt-get download them, and dpkg -x", file, dir, UnpackedPackages)
	if os.Getenv(RequireVar) == "all" && runtime.GOARCH == "amd64" {
		t.Fatal(text)
	}
	note(t, text)
	t.Skip(text)
	return ""
}
