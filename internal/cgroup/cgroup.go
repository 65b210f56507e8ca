// Package cgroup limits the memory, the CPUs and the number of processes of a group of processes. It supports both
// versions of control groups; it does not depend on the purpose of the processes.
//
// Below the root of a hierarchy, NAME is the directory of a driver's groups and NAME/GROUP one group. In version 1 each
// controller has its own hierarchy, so a group has three directories; in version 2 it has one.
package cgroup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"writ/internal/sleep"
)

// Bounds are limits for all processes of a group together. Zero means unlimited.
type Bounds struct {
	Memory    int64 // bytes, including kernel memory and swap
	MilliCPUs int64 // thousandths of a CPU, measured over 100 ms
	Weight    int64 // share of contended CPUs: PerCPU for each CPU of the group
	Processes int64 // processes and threads
}

// PerCPU is the weight of one CPU. It equals the kernel's default weight of a group.
const PerCPU = 100

// Groups are the groups of a driver on this host.
type Groups struct {
	Name string // required: name of their directory
	Root string // mount point of cgroups; "" means /sys/fs/cgroup

	once sync.Once
	mu   sync.Mutex // locked while a directory is made, so that its empty parent is not removed meanwhile
	has  hierarchy
}

// Of returns the groups of the driver named `whose`, whose files are in dir. Drivers with different directories have
// different groups.
func Of(whose, dir string) *Groups {
	sum := sha256.Sum256([]byte(dir))
	return &Groups{Name: "writ-" + whose + "-" + hex.EncodeToString(sum[:4])}
}

func (g *Groups) detected() hierarchy {
	g.once.Do(func() { g.has = detect(cmp.Or(g.Root, defaultRoot)) })
	return g.has
}

// Lacks returns the controllers among memory, cpu and pids that this host cannot use. If all are missing, err is the
// reason.
func (g *Groups) Lacks() (lacking []string, err error) {
	h := g.detected()
	for _, c := range controllers {
		if h.roots[c] == "" {
			lacking = append(lacking, c)
		}
	}
	return lacking, h.missing
}

// About returns a short description of the limits: "cgroups", "cgroups of version 1" or "nothing".
func (g *Groups) About() string {
	switch h := g.detected(); {
	case len(h.roots) == 0:
		return "nothing"
	case h.unified:
		return "cgroups"
	default:
		return "cgroups of version 1"
	}
}

// topDirs returns the directories of these groups, one for each hierarchy.
func (g *Groups) topDirs() []string {
	all := g.detected().distinct()
	for i := range all {
		all[i] = filepath.Join(all[i], g.Name)
	}
	return all
}

// Bound makes a group, or changes the limits of an existing group. Limits without a controller are ignored.
func (g *Groups) Bound(group string, b Bounds) error {
	if err := g.create(group); err != nil {
		return err
	}
	h := g.detected()
	for _, s := range settingsOf(b, h.unified) {
		if dir := h.path(s.controller, g.Name, group); dir != "" {
			if err := s.write(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// create makes the directories of a group.
func (g *Groups) create(group string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.detected()
	for _, top := range g.topDirs() {
		if err := h.delegate(filepath.Dir(top)); err != nil {
			return err
		}
		if err := os.MkdirAll(top, 0o755); err != nil {
			return err
		}
		if err := h.delegate(top); err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(top, group), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Add moves a running process with all its threads into a group; existing children of the process stay in their groups.
// It is not an error if the process has ended.
func (g *Groups) Add(group string, pid int) error {
	for _, top := range g.topDirs() {
		err := os.WriteFile(filepath.Join(top, group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// Has reports whether a process is in a group.
func (g *Groups) Has(group string, pid int) (bool, error) {
	for _, top := range g.topDirs() {
		members, err := members(filepath.Join(top, group))
		if err != nil || !slices.Contains(members, pid) {
			return false, err
		}
	}
	return true, nil
}

// members returns the processes of one directory, or nil if it is missing.
func members(dir string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil, nil
	}
	var all []int
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			all = append(all, pid)
		}
	}
	return all, err
}

// between is the poll interval of Remove.
const between = 2 * time.Millisecond

// Remove kills all processes of a group and deletes it. If it returns nil, no process of the group is left.
func (g *Groups) Remove(ctx context.Context, group string) error {
	for _, top := range g.topDirs() {
		if err := g.removeOne(ctx, top, group); err != nil {
			return err
		}
	}
	return nil
}

func (g *Groups) removeOne(ctx context.Context, top, group string) error {
	for {
		err := g.rmdir(top, group)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) {
			return err
		}
		if err := kill(filepath.Join(top, group)); err != nil {
			return err
		}
		if err := sleep.For(ctx, between); err != nil {
			return fmt.Errorf("%s still has processes: %w", filepath.Join(top, group), err)
		}
	}
}

func (g *Groups) rmdir(top, group string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := syscall.Rmdir(filepath.Join(top, group))
	if err == nil || errors.Is(err, fs.ErrNotExist) { // it may have been deleted by hand
		_ = syscall.Rmdir(top) // if that was the last group
	}
	return err
}

// Tidy deletes the directory of these groups if it is empty.
func (g *Groups) Tidy() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, top := range g.topDirs() {
		_ = syscall.Rmdir(top)
	}
}

// kill kills the processes of a directory. Threads of this process may be in the group briefly while they start
// processes; they leave it without being killed.
func kill(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	if err == nil {
		return nil
	}
	all, err := members(dir)
	for _, pid := range all {
		// 0 is a process of another PID namespace; killing 0 would end this process group.
		if pid <= 0 || pid == os.Getpid() {
			continue
		}
		if killed := syscall.Kill(pid, syscall.SIGKILL); killed != nil && !errors.Is(killed, syscall.ESRCH) {
			err = errors.Join(err, killed)
		}
	}
	return err
}

// All returns one directory of each group, by group name.
func (g *Groups) All() (map[string]string, error) {
	all := map[string]string{}
	for _, top := range g.topDirs() {
		entries, err := os.ReadDir(top)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() && all[e.Name()] == "" {
				all[e.Name()] = filepath.Join(top, e.Name())
			}
		}
	}
	return all, nil
}
