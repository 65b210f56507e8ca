package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// ImagePackages are Debian packages with programs of node images, and those of all libraries that these programs need. The manual names the same.
// With them are that of a kernel and ImageParts.
var ImagePackages = []string{
	"containerd", "runc", "btrfs-progs", "e2fsprogs", "redis-tools", "libatomic1", "libblkid1", "libc6", "libcap2", "libcom-err2", "libext2fs2", "libgcc-s1", "libgcrypt20",
	"libgpg-error0", "libjemalloc2", "liblz4-1", "liblzf1", "liblzma5", "libseccomp2", "libssl3", "libstdc++6", "libsystemd0", "libudev1", "libuuid1", "libzstd1",
}

// ImageParts are packages that each node image is made of, besides a kernel.
var ImageParts = []string{"systemd-boot-efi"}

// PackagesVar names the directory with the files of these packages. It is writ/packages in the user's directory of caches if it is not set.
const PackagesVar = "WRIT_TEST_PACKAGES"

// Packages returns a directory with the packages that a node image is made of. It skips the test as Need does.
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
