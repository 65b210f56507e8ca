package volume

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"writ/sal"
)

// writesInPlace reports whether disks in such volumes have the attribute C of lsattr(1).
func (k kind) writesInPlace() bool {
	name, _ := k.trees("", nil).About()
	return name == "btrfs"
}

// inPlace reports whether a file has that attribute.
func inPlace(t testing.TB, path string) bool {
	t.Helper()
	said, err := exec.Command("lsattr", path).CombinedOutput()
	if err != nil {
		t.Fatalf("lsattr: %v: %s", err, said)
	}
	return strings.Contains(strings.Fields(string(said))[0], "C")
}

func setAttributes(path string) error {
	return unix.Setxattr(path, "user.writ", []byte("a\x00value"), 0)
}

func attributes(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := sal.Attributes(f)
	if err != nil {
		t.Fatal(err)
	}
	return all["user.writ"]
}

// shares reports whether files in a directory can share blocks.
func shares(t testing.TB, dir string) bool {
	t.Helper()
	from, err := os.Create(filepath.Join(dir, "shares-from"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(filepath.Join(dir, "shares-to"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}
