package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// UnpackedPackages lists Debian packages with files that tests need. They are unpacked but not installed: the test
// machine must not use their firmware, loaders and services.
var UnpackedPackages = []string{"ovmf", "systemd-boot-efi", "kmod", "cloud-init", "python3-yaml"}

// UnpackedVar names the directory with these unpacked packages. The default is writ/boot in the user's cache directory.
const UnpackedVar = "WRIT_TEST_BOOT"

// Files in these packages.
const (
	FirmwareCode = "usr/share/OVMF/OVMF_CODE_4M.fd" // code of the UEFI firmware
	FirmwareVars = "usr/share/OVMF/OVMF_VARS_4M.fd" // initial variables of the UEFI firmware
	EFIStub      = "usr/lib/systemd/boot/efi/linuxx64.efi.stub"
	Kmod         = "bin/kmod" // acts as depmod if started under that name
	CloudInit    = "usr/lib/python3/dist-packages/cloudinit/user_data.py"
)

// Unpacked returns the path of a file in these packages, unpacked or on this machine. It skips the test like Need.
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
	// Later releases have all files below usr.
	for _, path := range []string{filepath.Join(dir, file), filepath.Join(dir, "usr", file), filepath.Join("/", file)} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	text := fmt.Sprintf("%s is not in %s: .ci/run unpacks %v there, or apt-get download them, and dpkg -x", file, dir,
		UnpackedPackages)
	if os.Getenv(RequireVar) == "all" && runtime.GOARCH == "amd64" {
		t.Fatal(text)
	}
	note(t, text)
	t.Skip(text)
	return ""
}
