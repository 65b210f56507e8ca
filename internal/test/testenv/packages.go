package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// ImagePackages lists the Debian packages with the programs of node images and the libraries that these need. The
// manual has the same list. A kernel package and ImageParts complete it.
var ImagePackages = []string{
	"containerd", "runc", "btrfs-progs", "e2fsprogs", "redis-tools", "libatomic1", "libblkid1", "libc6", "libcap2",
	"libcom-err2", "libext2fs2", "libgcc-s1", "libgcrypt20", "libgpg-error0", "libjemalloc2", "liblz4-1", "liblzf1",
	"liblzma5", "libseccomp2", "libssl3", "libstdc++6", "libsystemd0", "libudev1", "libuuid1", "libzstd1",
}

// ImageParts lists the further packages of each node image, except the kernel.
var ImageParts = []string{"systemd-boot-efi"}

// PackagesVar names the directory with these packages. The default is writ/packages in the user's cache directory.
const PackagesVar = "WRIT_TEST_PACKAGES"

// Packages returns a directory with the packages of a node image. It skips the test like Need.
func Packages(t testing.TB) string {
	t.Helper()
	dir := os.Getenv(PackagesVar)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "writ", "packages")
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.deb")); len(files) > len(ImagePackages)+len(ImageParts) {
		return dir
	}
	text := fmt.Sprintf("the packages of node images are not in %s: .ci/nightly downloads them, or apt-get download %v %v and a kernel", dir, ImageParts, ImagePackages)
	if os.Getenv(RequireVar) == "all" && runtime.GOARCH == "amd64" {
		t.Fatal(text)
	}
	note(t, text)
	t.Skip(text)
	return ""
}
