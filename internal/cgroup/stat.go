package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Stat is the resource use of a group. Values of missing controllers are zero.
type Stat struct {
	Memory    int64 // current bytes
	CPU       int64 // microseconds of CPU time since the group was made; 0 in version 1
	Processes int64 // current processes and threads
	OutOf     int64 // processes that were killed at the memory limit
	Refused   int64 // rejected new processes
	Throttled int64 // number of 100 ms periods without CPU time left
}

// Stat returns the resource use of a group, or zeros if it is missing.
func (g *Groups) Stat(group string) Stat {
	h := g.detected()
	read := func(controller, file, field string) int64 {
		return counter(h.path(controller, g.Name, group), file, field)
	}
	s := Stat{
		Processes: read(pids, "pids.current", ""),
		Refused:   read(pids, "pids.events", "max"),
		Throttled: read(cpu, "cpu.stat", "nr_throttled"),
	}
	if h.unified {
		s.Memory, s.OutOf = read(memory, "memory.current", ""), read(memory, "memory.events", "oom_kill")
		s.CPU = read(cpu, "cpu.stat", "usage_usec")
		return s
	}
	s.Memory, s.OutOf = read(memory, "memory.usage_in_bytes", ""), read(memory, "memory.oom_control", "oom_kill")
	return s // CPU time would need the controller cpuacct
}

// counter reads a number from a file of a group: the number after field or, without a field, the first number. It
// returns 0 if dir is empty or the number is missing.
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

// Taken returns the CPU time and the memory of a group that another program made, such as a container runtime. path is
// relative to the root of the hierarchy. The memory does not include caches of files that the kernel can drop. found is
// false if the group is missing.
func Taken(path string) (cpuTime time.Duration, used int64, found bool) {
	if dir := filepath.Join(defaultRoot, path); exists(dir, "cpu.stat") {
		used = counter(dir, "memory.current", "") - counter(dir, "memory.stat", "inactive_file")
		return time.Duration(counter(dir, "cpu.stat", "usage_usec")) * time.Microsecond, max(used, 0), true
	}
	accounts, limits := filepath.Join(defaultRoot, "cpuacct", path), filepath.Join(defaultRoot, memory, path)
	if !exists(accounts, "cpuacct.usage") {
		return 0, 0, false
	}
	used = counter(limits, "memory.usage_in_bytes", "") - counter(limits, "memory.stat", "total_inactive_file")
	return time.Duration(counter(accounts, "cpuacct.usage", "")), max(used, 0), true
}

func exists(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return err == nil
}

// LimitsSwap reports whether the kernel can limit the swap of groups. In version 2, it detects this only if a group
// below the root has the memory controller.
func LimitsSwap() bool {
	if exists(filepath.Join(defaultRoot, memory), "memory.memsw.limit_in_bytes") {
		return true
	}
	groups, err := filepath.Glob(filepath.Join(defaultRoot, "*", "memory.swap.max"))
	return err == nil && len(groups) > 0
}

// KilledForMemory returns the number of processes that the kernel killed at the memory limit of a group that another
// program made, such as a container runtime. path is relative to the root of the hierarchy. It returns 0 if the group
// is missing.
func KilledForMemory(path string) int64 {
	return max(
		counter(filepath.Join(defaultRoot, path), "memory.events", "oom_kill"),
		counter(filepath.Join(defaultRoot, memory, path), "memory.oom_control", "oom_kill"),
	)
}
