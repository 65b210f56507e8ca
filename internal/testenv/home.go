package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// MakerVar is in the environment of every process that a test starts: the lock of the test process. Who holds no lock any more has been
// killed, and what it left is removed when the next test process begins.
const MakerVar = "WRIT_TEST_MAKER"

const (
	homePrefix = "writ-test-" // and the pid of the maker, for people
	lockName   = ".maker"     // is locked as long as the maker lives
	groupsName = ".cgroups"   // names of control groups that the maker made, a line each
	settled    = time.Minute  // how old a directory without a lock must be that nobody is about to lock
	inMemory   = "/dev/shm"   // a place in memory, where there is one
)

// homes are the directories of this process, by where they are.
var homes struct {
	mu     sync.Mutex
	byRoot map[string]*home
	swept  sync.Once
}

// home is a directory of this process that holds those of its tests.
type home struct {
	dir  string
	lock *os.File
	used int
}

// Home returns a new directory for what cannot be in that of the test: paths of sockets must be short, and servers with other users must get
// in. It is removed when the test ends; if the test process is killed, when the next one begins.
func Home(t testing.TB, name string) string {
	t.Helper()
	dir, remove, err := MakeHome(name)
	return kept(t, dir, remove, err)
}

// HomeInMemory is Home in memory where the system has a place there, so that a busy disk holds nobody up.
func HomeInMemory(t testing.TB, name string) string {
	t.Helper()
	root := inMemory
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		root = os.TempDir()
	}
	dir, remove, err := makeHome(root, name)
	return kept(t, dir, remove, err)
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

// mark lets processes that this one starts be known as its own.
func mark(t testing.TB) {
	t.Helper()
	Home(t, "mark")
}

func makeHome(root, name string) (dir string, remove func() error, err error) {
	homes.swept.Do(func() { sweep(os.TempDir(), inMemory) })
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

// newHome makes a directory and locks it. The lock gets its name when it is held: before, nobody takes the directory for left behind.
func newHome(root string) (*home, error) {
	dir, err := os.MkdirTemp(root, fmt.Sprintf("%s%d-", homePrefix, os.Getpid()))
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
	endOrphans()
	for _, root := range roots {
		left, _ := filepath.Glob(filepath.Join(root, homePrefix+"*"))
		for _, dir := range left {
			if !abandoned(dir) {
				continue
			}
			unmountBelow(dir)
			groups, _ := os.ReadFile(filepath.Join(dir, groupsName))
			for name := range strings.Lines(string(groups)) {
				removeGroup(strings.TrimSpace(name))
			}
			_ = os.RemoveAll(dir)
		}
	}
}

// abandoned reports whether the maker of a directory has ended.
func abandoned(dir string) bool {
	gone, err := unlocked(filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		info, err := os.Stat(dir)
		return err == nil && time.Since(info.ModTime()) > settled
	}
	return err == nil && gone
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
