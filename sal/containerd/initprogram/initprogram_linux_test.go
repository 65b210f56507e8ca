package initprogram

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
)

// Promise: Networks and containers: An init program that another user than root can change, or that needs libraries, is refused.
// How: The driver checks the file, the directories above it and its format before each start.
func TestUnsafeInitProgramIsRefused(t *testing.T) {
	testenv.NeedRoot(t)
	program, err := os.ReadFile(testenv.Need(t, "catatonit"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(t *testing.T, name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	valid := write(t, "valid", string(program), 0o755)
	link := filepath.Join(dir, "link")
	if err := os.Symlink("valid", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{valid, link} {
		if got, err := Find(path); got != valid || err != nil {
			t.Errorf("%s is found as %q, %v", path, got, err)
		}
	}
	for _, tt := range []struct {
		path func(t *testing.T) string
		says string
	}{
		{func(t *testing.T) string { return filepath.Join(dir, "missing") }, "no such file"},
		{func(t *testing.T) string { return "valid" }, "not an absolute path"},
		{func(t *testing.T) string { return dir }, "not a regular file"},
		{func(t *testing.T) string { return write(t, "script", "#!/bin/sh\n", 0o755) }, "not a program"},
		{func(t *testing.T) string { return write(t, "group", string(program), 0o775) }, "can be changed by other users"},
		{func(t *testing.T) string { return write(t, "all", string(program), 0o757) }, "can be changed by other users"},
		{func(t *testing.T) string { return write(t, "private", string(program), 0o700) }, "not executable for all users"},
		{func(t *testing.T) string { return write(t, "data", string(program), 0o644) }, "not executable for all users"},
		{func(t *testing.T) string {
			path := write(t, "owned", string(program), 0o755)
			if err := os.Chown(path, 1000, 0); err != nil {
				t.Fatal(err)
			}
			return path
		}, "can be changed by other users"},
		{func(t *testing.T) string {
			path := write(t, "open/init", string(program), 0o755)
			if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			return path
		}, "can be replaced"},
		{func(t *testing.T) string {
			path := filepath.Join(dir, "open", "link")
			if err := os.Symlink(valid, path); err != nil {
				t.Fatal(err)
			}
			return path
		}, "can be replaced"},
		{func(t *testing.T) string { return testenv.Need(t, "lsattr") }, "not static"},
	} {
		path := tt.path(t)
		if _, err := Find(path); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", path, err, tt.says)
		}
		_, err := Require(path)
		if e := writ.AsError(err); e.Code != writ.CodeDriverMissing || e.Retryable() || e.Hint == "" || strings.Contains(e.Error(), path) {
			t.Errorf("%s: an author reads %v, hint %q", path, err, e.Hint)
		}
	}
}

func TestFirstPackagedInitProgramIsUsed(t *testing.T) {
	testenv.NeedRoot(t)
	program, err := filepath.EvalSymlinks(testenv.Need(t, "catatonit"))
	if err != nil {
		t.Fatal(err)
	}
	packaged := Packaged
	t.Cleanup(func() { Packaged = packaged })
	missing := filepath.Join(t.TempDir(), "missing")
	Packaged = []string{missing, os.DevNull, program, testenv.Need(t, "busybox")}
	if got, err := Find(""); got != program || err != nil {
		t.Errorf("found is %q, %v", got, err)
	}
	Packaged = []string{missing, os.DevNull}
	if _, err := Find(""); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("with an invalid one: %v", err)
	}
	Packaged = []string{missing}
	if _, err := Find(""); err == nil || err.Error() != "not installed" {
		t.Errorf("with none: %v", err)
	}
}
