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
)

// MakerVar is in the environment of every process that a test starts: the lock of the test process. Who holds no lock any more has been
// killed, and what it left is removed: by its watcher at once, and if that was killed too, when the next test process begins.
const MakerVar = "WRIT_TEST_MAKER"

const (
	homePrefix = "writ-test-" // and the pid of the maker, for people
	lockName   = ".maker"     // is locked as long as the maker lives
	groupsName = ".cgroups"   // names of control groups that the maker made, a line each
	staleAfter = time.Minute  // how old a directory without a lock must be that nobody is about to lock
	inMemory   = "/dev/shm"   // a place in memory, where there is one
)

// homes are the directories of this process, by where they are.
var homes struct {
	mu     sync.Mutex
	byRoot map[string]*home
	begun  sync.Once
	watch  int // the number of this process's watcher

	lifeline *os.File // open as long as this process lives, whatever ends it; no other process has it
}

// home is a directory of this process that holds those of its tests.
type home struct {
	dir  string
	lock *os.File
	used int
}

// Home returns a new directory for what cannot be in that of the test: paths of sockets must be short, and servers with other users must get
// in. It is removed when the test ends, also if the test process is killed, with the processes that name a file in it.
func Home(t testing.TB, name string) string {
	t.Helper()
	dir, remove, err := MakeHome(name)
	return kept(t, dir, remove, err)
}

// HomeInMemory is Home in memory where the system has room there, so that a busy disk delays no test.
func HomeInMemory(t testing.TB, name string) string {
	t.Helper()
	dir, remove, err := makeHome(memoryRoot(), name)
	return kept(t, dir, remove, err)
}

// memoryRoot is where a directory is in memory, if what tests put there fits: containers often have some megabytes there.
func memoryRoot() string {
	if freeBytes(inMemory) < 2<<30 {
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

// MakeHome is Home for what several tests share; TestMain removes it.
func MakeHome(name string) (dir string, remove func() error, err error) {
	return makeHome(os.TempDir(), name)
}

// Maker returns the variable by which a process is known as this test's, for those that are given an environment of their own.
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

// homesOf is how the names of a process's directories begin.
func homesOf(pid int) string { return fmt.Sprintf("%s%d-", homePrefix, pid) }

// newHome makes a directory and locks it. The lock gets its name when it is held: before, nobody takes the directory for left behind.
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

// leave removes the directory when nobody uses it any more.
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

// sweep removes what killed test processes left: their processes, mounts, control groups and directories. What cannot be removed is left to
// the next one.
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

// homesIn are the directories of test processes whose names begin so.
func homesIn(roots []string, prefix string) (all []string) {
	for _, root := range roots {
		found, _ := filepath.Glob(filepath.Join(root, prefix+"*"))
		all = append(all, found...)
	}
	return all
}

// groupsOf are the control groups of a process that had a directory: those that it has noted, and those of the containers whose daemon it ran there.
func groupsOf(dir string) []string {
	noted, _ := os.ReadFile(filepath.Join(dir, groupsName))
	all := strings.Fields(string(noted))
	bundles, _ := filepath.Glob(filepath.Join(dir, "*", bundlesBelow))
	for _, bundle := range bundles {
		all = append(all, filepath.Join(filepath.Base(filepath.Dir(bundle)), filepath.Base(bundle)))
	}
	return all
}

// bundlesBelow are what a containerd keeps of its containers, below its directory: of each namespace and container.
const bundlesBelow = "state/io.containerd.runtime.v2.task/*/*"

// abandoned reports whether the maker of a directory has ended.
func abandoned(dir string) bool {
	gone, err := unlocked(filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		info, err := os.Stat(dir)
		return err == nil && time.Since(info.ModTime()) > staleAfter
	}
	return err == nil && gone
}

// awaitUnlocked waits until nobody holds the lock of a directory: what ends a process closes one file after the other.
func awaitUnlocked(dir string) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return
	}
	defer f.Close()
	for errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX), syscall.EINTR) {
	}
}

// unlocked reports whether nobody holds a lock.
func unlocked(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil, nil
}
