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

// find looks which controllers there are, and changes nothing that stays.
func find(root string) hierarchy {
	offered, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err == nil {
		return findUnified(root, strings.Fields(string(offered)))
	}
	h := hierarchy{roots: map[string]string{}, missing: errors.New("no group can be made below " + root)}
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

// findUnified takes the controllers that are handed down from the root, or can be: from the host's own root they always can, from that of a
// container only if nothing runs there, and whoever has set it up has done so then.
func findUnified(root string, offered []string) hierarchy {
	h := hierarchy{unified: true, roots: map[string]string{}}
	if h.missing = probe(root); h.missing != nil {
		return h
	}
	_, inner := os.Stat(filepath.Join(root, "cgroup.type")) // which the host's own root does not have
	handed, err := os.ReadFile(filepath.Join(root, control))
	for _, c := range controllers {
		given := err == nil && slices.Contains(strings.Fields(string(handed)), c)
		if slices.Contains(offered, c) && (given || inner != nil) {
			h.roots[c] = root
		}
	}
	if len(h.roots) == 0 {
		h.missing = fmt.Errorf("%s hands no controller down", root)
	}
	return h
}

// control says which controllers the groups of a directory have. Only version 2 has it.
const control = "cgroup.subtree_control"

// probe returns why no group can be made in a directory.
func probe(dir string) error {
	made, err := os.MkdirTemp(dir, "writ-probe-")
	if err != nil {
		return err
	}
	return syscall.Rmdir(made)
}

// Bound makes a group, or gives one that is there other bounds. Bounds for which there is no controller are left out.
func (g *Groups) Bound(group string, b Bounds) error {
	if err := g.prepare(group); err != nil {
		return err
	}
	for _, f := range g.files(group, b) {
		err := os.WriteFile(f.path, []byte(f.text), 0)
		if err != nil && !(f.lax && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EINVAL))) {
			return err
		}
	}
	return nil
}

// prepare makes the directories of a group.
func (g *Groups) prepare(group string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.found()
	for _, top := range g.tops() {
		if h.unified {
			if err := hand(filepath.Dir(top), h.roots); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(top, 0o755); err != nil {
			return err
		}
		if h.unified {
			if err := hand(top, h.roots); err != nil {
				return err
			}
		}
		if err := os.Mkdir(filepath.Join(top, group), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// hand hands controllers down to the groups of a directory.
func hand(dir string, down map[string]string) error {
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

// setting is what a file of a group is to have. A lax one may be missing, or refuse: there is another one that counts.
type setting struct {
	path, text string
	lax        bool
}

// period is the time in which processors are counted, in microseconds.
const period = 100_000

func (g *Groups) files(group string, b Bounds) (all []setting) {
	unified := g.found().unified
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
	if b.Memory > 0 && !unified { // the bound with swap is never the lower one: it comes first if both grow, and last if they shrink
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

// Add brings a process that runs into a group, with all its threads; what it started before stays where it is. One that has ended is no
// error.
func (g *Groups) Add(group string, pid int) error {
	for _, top := range g.tops() {
		err := os.WriteFile(filepath.Join(top, group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// Has reports whether a process is in a group.
func (g *Groups) Has(group string, pid int) (bool, error) {
	for _, top := range g.tops() {
		members, err := members(filepath.Join(top, group))
		if err != nil || !slices.Contains(members, pid) {
			return false, err
		}
	}
	return true, nil
}

// members are the processes of one directory; none if it is not there.
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

// between is the pause between two looks whether a group is empty.
const between = 2 * time.Millisecond

// Remove kills whatever is in a group and takes it away. When it returns nil, no process of the group lives.
func (g *Groups) Remove(ctx context.Context, group string) error {
	for _, top := range g.tops() {
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
	if err == nil || errors.Is(err, fs.ErrNotExist) { // somebody may have taken it away by hand
		_ = unix.Rmdir(top) // if it was the last one
	}
	return err
}

// Tidy takes away what is left of the directory of these groups when there is none in it.
func (g *Groups) Tidy() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, top := range g.tops() {
		_ = unix.Rmdir(top)
	}
}

// kill kills the processes of a directory. Threads of this process may be there for a moment, those that start others: they go by themselves.
func kill(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	if err == nil {
		return nil
	}
	all, err := members(dir)
	for _, pid := range all {
		if pid <= 0 || pid == os.Getpid() { // 0 is one of another namespace of pids, and to kill it would end our own group of processes
			continue
		}
		if killed := unix.Kill(pid, unix.SIGKILL); killed != nil && !errors.Is(killed, unix.ESRCH) {
			err = errors.Join(err, killed)
		}
	}
	return err
}

// All are the directories of all groups by their names, one for each.
func (g *Groups) All() (map[string]string, error) {
	all := map[string]string{}
	for _, top := range g.tops() {
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

// Stat looks at a group. One that is not there has taken nothing.
func (g *Groups) Stat(group string) Stat {
	read := func(controller, file, field string) int64 { return counter(g.path(controller, group), file, field) }
	s := Stat{
		Processes: read(pids, "pids.current", ""),
		Refused:   read(pids, "pids.events", "max"),
		Throttled: read(cpu, "cpu.stat", "nr_throttled"),
	}
	if g.found().unified {
		s.Memory, s.OutOf = read(memory, "memory.current", ""), read(memory, "memory.events", "oom_kill")
		s.CPU = read(cpu, "cpu.stat", "usage_usec")
		return s
	}
	s.Memory, s.OutOf = read(memory, "memory.usage_in_bytes", ""), read(memory, "memory.oom_control", "oom_kill")
	return s // only the controller cpuacct would know of processors
}

// counter reads a number from a file of a group: the number after field, or the first one. It returns 0 if dir is empty or
// the number is missing.
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

// KilledForMemory counts the processes that the kernel killed at the memory limit of a group that another program made, such as a container
// runtime. path is below the root of the hierarchy. It is 0 if the group is missing.
func KilledForMemory(path string) int64 {
	root := (&Groups{}).root()
	return max(
		counter(filepath.Join(root, path), "memory.events", "oom_kill"),
		counter(filepath.Join(root, memory, path), "memory.oom_control", "oom_kill"),
	)
}

// Entry puts a process into a group before its first instruction. Close it when the process was started.
type Entry struct {
	Dir   *os.File // of version 2: the group, for clone3; nil otherwise
	tasks []string // of version 1
}

// Open opens the way into a group.
func (g *Groups) Open(group string) (*Entry, error) {
	d := &Entry{}
	for _, top := range g.tops() {
		if !g.found().unified {
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

// Enter brings the calling thread in, which has to end soon, and what it starts from now on. With version 2 it does nothing: no thread leaves
// its process, and Dir is for what is to be started.
func (d *Entry) Enter() error {
	for _, path := range d.tasks {
		if err := os.WriteFile(path, []byte(strconv.Itoa(unix.Gettid())), 0); err != nil {
			return err
		}
	}
	return nil
}

// Close closes it.
func (d *Entry) Close() {
	if d.Dir != nil {
		_ = d.Dir.Close()
	}
}
