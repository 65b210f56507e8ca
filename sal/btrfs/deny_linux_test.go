//go:build cgo

package btrfs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"writ/internal/confine"
	"writ/internal/test/testenv"
	"writ/sal"
)

// readsAs reports whether a process with a user and the shared group can read a file, like the engine or machine of
// another project.
func readsAs(t *testing.T, user, shared uint32, path string) bool {
	t.Helper()
	cmd := exec.Command("/bin/cat", path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user, Groups: []uint32{shared}}}
	output, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatalf("%v: %s", err, output)
	}
	return err == nil
}

// The users of engines and machines may pass the directory of all trees, as with real drivers. They cannot read a tree
// with an open mode, and a tree that was handed to a user is open only to that user.
//
// Promise: Failures: The engine or machine of one project cannot read a volume of another project.
// How: An access list on btrfs, a parent of mode 0700 on directories.
func TestOtherProjectsReadNoTree(t *testing.T) {
	t.Parallel()
	const shared, engine, other = 2010000000, 2010000001, 2010000002
	top := testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 1<<10).Dir
	for _, dir := range []string{filepath.Dir(top), filepath.Dir(filepath.Dir(top))} { // like /var/lib
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := New(Config{Dir: filepath.Join(top, "pool"), Deny: shared})
	fill := func(p *Pool, name string) string {
		dir, err := p.Make(t.Context(), name, sal.Bound{Bytes: 10 * mib})
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, sal.DiskName), []byte("secret"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	earlier := fill(New(Config{Dir: p.dir}), "earlier") // by a version without deny
	container, machine := fill(p, "container"), fill(p, "machine")
	if err := p.Snapshot(t.Context(), "container", "s1"); err != nil {
		t.Fatal(err)
	}
	copied := must[string](t)(p.Copy(t.Context(), "copied", sal.Bound{Bytes: 10 * mib}, "container", "s1"))
	accounts := &confine.Accounts{SharedGroup: shared, First: engine, Last: other, Top: top}
	if err := errors.Join(accounts.Lead(filepath.Join(p.dir, "trees")), sal.HandDisk(machine, engine, false, func(string) {})); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{earlier, container, copied} {
		if err := os.Chmod(dir, 0o777); err != nil { // as the root of a container may
			t.Fatal(err)
		}
		if readsAs(t, engine, shared, filepath.Join(dir, sal.DiskName)) {
			t.Errorf("a user of another project reads %s", filepath.Base(dir))
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 {
			t.Errorf("the mode of %s is %v, %v", filepath.Base(dir), info.Mode(), err)
		}
	}
	disk := filepath.Join(machine, sal.DiskName)
	if !readsAs(t, engine, shared, disk) || readsAs(t, other, shared, disk) {
		t.Errorf("the disk of a machine: its user reads it: %v, another one: %v", readsAs(t, engine, shared, disk), readsAs(t, other, shared, disk))
	}
	if err := sal.ReclaimDisk(machine, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if readsAs(t, engine, shared, disk) {
		t.Error("a machine that gave its disk back reads it")
	}
}
