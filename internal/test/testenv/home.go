package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"writ/internal/diskspace"
)

// MakerVar is set in the environment of every process that a test starts. It holds the path of the lock of the test
// process. If the lock is free, the test process was killed, and its leftovers are removed: by its watcher at once, or
// by the next test process if the watcher was killed, too.
const MakerVar = "WRIT_TEST_MAKER"

const (
	homePrefix = "writ-test-" // followed by the pid of the maker, for people
	lockName   = ".maker"     // locked while the maker lives
	groupsName = ".cgroups"   // names of control groups created by the maker, one per line
	staleAfter = time.Minute  // a directory without a lock is stale after this time
	inMemory   = "/dev/shm"   // a directory in memory, if it exists
)

// homes holds the directories of this process by their parent directory.
var homes struct {
	mu     sync.Mutex
	byRoot map[string]*home
	begun  sync.Once
	watch  int // pid of this process's watcher

	lifeline *os.File // write end of the watcher's standard input, which the end of this process closes
}

// home is a directory of this process that contains the directories of its tests.
type home struct {
	dir  string
	lock *os.File
	used int
}

// Home returns a new directory for files that cannot be in the test's own directory: socket paths must be short, and
// servers with other users need access. It is removed at the end of the test, even if the test process is killed,
// together with the processes that have a file in it among their arguments.
func Home(t testing.TB, name string) string {
	t.Helper()
	dir, remove, err := MakeHome(name)
	return kept(t, dir, remove, err)
}

// HomeInMemory returns a directory like Home, in memory if there is enough space. A busy disk then does not delay
// tests.
func HomeInMemory(t testing.TB, name string) string {
	t.Helper()
	dir, remove, err := makeHome(memoryRoot(), name)
	return kept(t, dir, remove, err)
}

// memoryRoot returns a directory in memory, if it has enough space for tests. In containers it often has only some
// megabytes.
func memoryRoot() string {
	if _, free, _ := diskspace.Of(inMemory); free < 2<<30 {
		return os.TempDir()
	}
	return inMemory
}

func kept(t testing.TB, dir string, remove func() error, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// MakeHome returns a directory like Home, for several tests. TestMain must call remove.
func MakeHome(name string) (dir string, remove func() error, err error) {
	return makeHome(os.TempDir(), name)
}

// Maker returns MakerVar with its value, "NAME=VALUE". A test adds it to the environment of a process that does not
// inherit the environment of the test.
func Maker(t testing.TB) string {
	t.Helper()
	Home(t, "mark")
	return MakerVar + "=" + os.Getenv(MakerVar)
}

func makeHome(root, name string) (dir string, remove func() error, err error) {
	homes.begun.Do(func() {
		sweep(os.TempDir(), inMemory)
		homes.watch = startWatcher()
	})
	homes.mu.Lock()
	defer homes.mu.Unlock()
	h := homes.byRoot[root]
	if h == nil {
		if h, err = newHome(root); err != nil {
			return "", nil, fmt.Errorf("make a directory for tests: %w", err)
		}
		if homes.byRoot == nil {
			homes.byRoot = map[string]*home{}
		}
		homes.byRoot[root] = h
		if os.Getenv(MakerVar) == "" {
			err = os.Setenv(MakerVar, filepath.Join(h.dir, lockName))
		}
	}
	if err == nil {
		dir, err = os.MkdirTemp(h.dir, name)
	}
	if err != nil {
		return "", nil, err
	}
	h.used++
	return dir, func() error { return errors.Join(os.RemoveAll(dir), h.leave(root)) }, nil
}

// homesOf returns the prefix of the names of a process's directories.
func homesOf(pid int) string { return fmt.Sprintf("%s%d-", homePrefix, pid) }

// newHome creates a directory and locks it. The lock file is renamed after it is locked, so that no process sees the
// directory as abandoned.
func newHome(root string) (*home, error) {
	dir, err := os.MkdirTemp(root, homesOf(os.Getpid()))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, lockName)
	lock, err := os.Create(path + "ing")
	if err == nil {
		err = errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX), os.Rename(path+"ing", path), os.Chmod(dir, 0o711))
	}
	return &home{dir: dir, lock: lock}, err
}

// leave removes the directory when its last user leaves.
func (h *home) leave(root string) error {
	homes.mu.Lock()
	defer homes.mu.Unlock()
	if h.used--; h.used > 0 {
		return nil
	}
	delete(homes.byRoot, root)
	if os.Getenv(MakerVar) == filepath.Join(h.dir, lockName) {
		_ = os.Unsetenv(MakerVar)
	}
	err := os.RemoveAll(h.dir)
	return errors.Join(err, h.lock.Close())
}

// sweep removes leftovers of killed test processes: processes, mounts, control groups and directories. The next sweep
// retries failed removals.
func sweep(roots ...string) {
	left := homesIn(roots, homePrefix)
	left = slices.DeleteFunc(left, func(dir string) bool { return !abandoned(dir) })
	endOrphans(left)
	for _, dir := range left {
		for _, name := range groupsOf(dir) {
			endGroup(name)
		}
		unmountBelow(dir)
		_ = os.RemoveAll(dir)
	}
}

// homesIn returns the directories of test processes with a prefix.
func homesIn(roots []string, prefix string) (all []string) {
	for _, root := range roots {
		found, _ := filepath.Glob(filepath.Join(root, prefix+"*"))
		all = append(all, found...)
	}
	return all
}

// groupsOf returns the control groups of the process that owned a directory. These are the registered groups, and the
// groups of the containers of a daemon in the directory.
func groupsOf(dir string) []string {
	noted, _ := os.ReadFile(filepath.Join(dir, groupsName))
	all := strings.Fields(string(noted))
	bundles, _ := filepath.Glob(filepath.Join(dir, "*", bundlesBelow))
	for _, bundle := range bundles {
		all = append(all, filepath.Join(filepath.Base(filepath.Dir(bundle)), filepath.Base(bundle)))
	}
	return all
}

// bundlesBelow matches containerd's state of a container below the daemon's directory, by namespace and container.
const bundlesBelow = "state/io.containerd.runtime.v2.task/*/*"

// abandoned reports whether the owner of a directory has ended.
func abandoned(dir string) bool {
	gone, err := unlocked(filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		info, err := os.Stat(dir)
		return err == nil && time.Since(info.ModTime()) > staleAfter
	}
	return err == nil && gone
}

// awaitUnlocked waits until the lock of a directory is free. A process that ends closes its files one after the other.
func awaitUnlocked(dir string) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return
	}
	defer f.Close()
	for errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX), syscall.EINTR) {
	}
}

// unlocked reports whether a lock is free.
func unlocked(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil, nil
}
