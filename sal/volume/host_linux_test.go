package volume

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"writ/internal/test/testenv"
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
	said, err := exec.Command(testenv.Need(t, "lsattr"), path).CombinedOutput()
	if err != nil {
		t.Fatalf("lsattr: %v: %s", err, said)
	}
	return strings.Contains(strings.Fields(string(said))[0], "C")
}

func setAttributes(path string) error {
	return setAttribute(path, "user.writ", "a\x00value")
}

func setAttribute(path, name, value string) error { return unix.Setxattr(path, name, []byte(value), 0) }

func attributes(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := ""
	err = sal.EachAttribute(f, func(name, value string) error {
		if name == "user.writ" {
			text = value
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
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

func TestPackingBoundsAttributes(t *testing.T) {
	t.Parallel()
	host := kinds["btrfs"].hosts(t).New(t)
	for i := range 80 {
		if err := setAttribute(host, fmt.Sprintf("user.writ-%d", i), strings.Repeat("x", 15<<10)); err != nil {
			t.Fatal(err)
		}
	}
	err := pack(t.Context(), io.Discard, host)
	if err == nil || !strings.Contains(err.Error(), "more than 960 KiB of extended attributes") {
		t.Errorf("1,200 KiB: %v", err)
	}
}
