package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// detect detects the usable controllers. It leaves no changes.
func detect(root string) hierarchy {
	offered, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err == nil {
		return findUnified(root, strings.Fields(string(offered)))
	}
	h := hierarchy{roots: map[string]string{}, missing: errors.New("cannot make a group below " + root)}
	for _, c := range controllers {
		at := filepath.Join(root, c)
		if _, err := os.Stat(filepath.Join(at, "cgroup.procs")); err != nil {
			continue
		}
		if err := probe(at); err != nil {
			h.missing = err
			continue
		}
		h.roots[c] = at
	}
	if len(h.roots) > 0 {
		h.missing = nil
	}
	return h
}

// findUnified detects the controllers of version 2 that the root delegates or can delegate. The host's own root
// always can. The root of a container can only while it contains no process, so its delegation must have been set up
// before.
func findUnified(root string, offered []string) hierarchy {
	h := hierarchy{unified: true, roots: map[string]string{}}
	if h.missing = probe(root); h.missing != nil {
		return h
	}
	_, inner := os.Stat(filepath.Join(root, "cgroup.type")) // missing in the host's own root
	handed, err := os.ReadFile(filepath.Join(root, control))
	for _, c := range controllers {
		given := err == nil && slices.Contains(strings.Fields(string(handed)), c)
		if slices.Contains(offered, c) && (given || inner != nil) {
			h.roots[c] = root
		}
	}
	if len(h.roots) == 0 {
		h.missing = fmt.Errorf("%s delegates no controller", root)
	}
	return h
}

// control is the file with the controllers of a directory's groups. It exists only in version 2.
const control = "cgroup.subtree_control"

// probe returns an error if no group can be made in a directory.
func probe(dir string) error {
	made, err := os.MkdirTemp(dir, "writ-probe-")
	if err != nil {
		return err
	}
	return syscall.Rmdir(made)
}

// Bound makes a group, or changes the limits of an existing one. Limits without a controller are ignored.
func (g *Groups) Bound(group string, b Bounds) error {
	if err := g.prepare(group); err != nil {
		return err
	}
	for _, f := range g.files(group, b) {
		err := os.WriteFile(f.path, []byte(f.text), 0)
		if err != nil &&
			!(f.lax && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EINVAL))) {
			return err
		}
	}
	return nil
}

// prepare makes the directories of a group.
func (g *Groups) prepare(group string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.detected()
	for _, top := range g.topDirs() {
		if h.unified {
			if err := delegate(filepath.Dir(top), h.roots); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(top, 0o755); err != nil {
			return err
		}
		if h.unified {
			if err := delegate(top, h.roots); err != nil {
				return err
			}
		}
		if err := os.Mkdir(filepath.Join(top, group), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// delegate delegates controllers to the groups of a directory.
func delegate(dir string, down map[string]string) error {
	path := filepath.Join(dir, control)
	there, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var more []string
	for _, c := range controllers {
		if down[c] != "" && !slices.Contains(strings.Fields(string(there)), c) {
			more = append(more, "+"+c)
		}
	}
	if more == nil {
		return nil
	}
	return os.WriteFile(path, []byte(strings.Join(more, " ")), 0)
}

// setting is a value for a file of a group. A lax one may fail, because another setting is decisive.
type setting struct {
	path, text string
	lax        bool
}

// period is the CPU accounting period, in microseconds.
const period = 100_000

func (g *Groups) files(group string, b Bounds) (all []setting) {
	unified := g.detected().unified
	set := func(controller, name, text string, lax bool) {
		if dir := g.path(controller, group); dir != "" {
			all = append(all, setting{filepath.Join(dir, name), text, lax})
		}
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if b.Memory > 0 && unified {
		set(memory, "memory.swap.max", "0", true)
		set(memory, "memory.max", number(b.Memory), false)
	}
	// The limit including swap must never be lower, so it is written first when both grow, and last when they shrink.
	if b.Memory > 0 && !unified {
		set(memory, "memory.memsw.limit_in_bytes", number(b.Memory), true)
		set(memory, "memory.limit_in_bytes", number(b.Memory), false)
		set(memory, "memory.memsw.limit_in_bytes", number(b.Memory), true)
	}
	if b.Processes > 0 {
		set(pids, "pids.max", number(b.Processes), false)
	}
	quota := b.MilliCPUs * period / 1000
	if b.MilliCPUs > 0 && unified {
		set(cpu, "cpu.max", fmt.Sprintf("%d %d", quota, period), false)
	}
	if b.MilliCPUs > 0 && !unified {
		set(cpu, "cpu.cfs_period_us", number(period), false)
		set(cpu, "cpu.cfs_quota_us", number(quota), false)
	}
	if b.Weight > 0 && unified {
		set(cpu, "cpu.weight", number(min(max(b.Weight, 1), 10_000)), false)
	}
	if b.Weight > 0 && !unified {
		set(cpu, "cpu.shares", number(min(max(b.Weight*1024/PerCPU, 2), 262_144)), false)
	}
	return all
}

// Add moves a running process with all its threads into a group; its children stay where they are. It is not an error
// if the process has ended.
func (g *Groups) Add(group string, pid int) error {
	for _, top := range g.topDirs() {
		err := os.WriteFile(filepath.Join(top, group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) {
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
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
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
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		if err := kill(filepath.Join(top, group)); err != nil {
			return err
		}
		pause := time.NewTimer(between)
		select {
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("%s still has processes: %w", filepath.Join(top, group), ctx.Err())
		case <-pause.C:
		}
	}
}

func (g *Groups) rmdir(top, group string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := unix.Rmdir(filepath.Join(top, group))
	if err == nil || errors.Is(err, fs.ErrNotExist) { // it may have been deleted by hand
		_ = unix.Rmdir(top) // if it was the last one
	}
	return err
}

// Tidy deletes the directory of these groups if it is empty.
func (g *Groups) Tidy() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, top := range g.topDirs() {
		_ = unix.Rmdir(top)
	}
}

// kill kills the processes of a directory. Threads of this process may be there briefly while they start processes;
// they leave by themselves.
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
		if killed := unix.Kill(pid, unix.SIGKILL); killed != nil && !errors.Is(killed, unix.ESRCH) {
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

// Stat returns the resource use of a group, or zeros if it is missing.
func (g *Groups) Stat(group string) Stat {
	read := func(controller, file, field string) int64 { return counter(g.path(controller, group), file, field) }
	s := Stat{
		Processes: read(pids, "pids.current", ""),
		Refused:   read(pids, "pids.events", "max"),
		Throttled: read(cpu, "cpu.stat", "nr_throttled"),
	}
	if g.detected().unified {
		s.Memory, s.OutOf = read(memory, "memory.current", ""), read(memory, "memory.events", "oom_kill")
		s.CPU = read(cpu, "cpu.stat", "usage_usec")
		return s
	}
	s.Memory, s.OutOf = read(memory, "memory.usage_in_bytes", ""), read(memory, "memory.oom_control", "oom_kill")
	return s // CPU time would need the controller cpuacct
}

// counter reads a number from a file of a group: the number after field, or the first one. It returns 0 if dir is empty
// or the number is missing.
func counter(dir, file, field string) int64 {
	if dir == "" {
		return 0
	}
	text, _ := os.ReadFile(filepath.Join(dir, file))
	words := strings.Fields(string(text))
	if i := slices.Index(words, field); field != "" {
		words = words[i+1:]
		if i < 0 {
			return 0
		}
	}
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(words[0], 10, 64)
	return n
}

// KilledForMemory returns the number of processes that the kernel killed at the memory limit of a group that another
// program made, such as a container runtime. path is relative to the root of the hierarchy. It returns 0 if the group
// is missing.
func KilledForMemory(path string) int64 {
	root := (&Groups{}).root()
	return max(
		counter(filepath.Join(root, path), "memory.events", "oom_kill"),
		counter(filepath.Join(root, memory, path), "memory.oom_control", "oom_kill"),
	)
}

// Entry puts a process into a group before its first instruction. It must be closed after the start.
type Entry struct {
	Dir   *os.File // version 2: the group, for clone3; otherwise nil
	tasks []string // version 1
}

// Open opens a group for new processes.
func (g *Groups) Open(group string) (*Entry, error) {
	d := &Entry{}
	for _, top := range g.topDirs() {
		if !g.detected().unified {
			d.tasks = append(d.tasks, filepath.Join(top, group, "tasks"))
			continue
		}
		var err error
		if d.Dir, err = os.Open(filepath.Join(top, group)); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Enter moves the calling thread, which must end soon, and its future children into the group. In version 2 it is a
// no-op, because a thread cannot leave its process; Dir is for the new process.
func (d *Entry) Enter() error {
	for _, path := range d.tasks {
		if err := os.WriteFile(path, []byte(strconv.Itoa(unix.Gettid())), 0); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the entry.
func (d *Entry) Close() {
	if d.Dir != nil {
		_ = d.Dir.Close()
	}
}
