//go:build unix

package saltest

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// Looks returns owner, group and mode of a file or directory.
func Looks(t testing.TB, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	s := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d %o", s.Uid, s.Gid, info.Mode().Perm())
}
