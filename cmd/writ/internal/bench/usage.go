package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/internal/procstat"
)

// usage holds the kernel's statistics of a process.
type usage struct {
	RSS, Peak int64         // in bytes
	CPU       time.Duration // CPU time of the process
	Reaped    time.Duration // CPU time of its exited descendants
}

func (c *child) usage() (usage, error) { return usageOf(c.cmd.Process.Pid) }

// children returns the usage of the child processes: the evaluators of a supervisor.
func (c *child) children() (all usage, err error) {
	pids, err := childrenOf(c.cmd.Process.Pid)
	for _, pid := range pids {
		if u, err := usageOf(pid); err == nil { // otherwise it has exited meanwhile
			all.RSS += u.RSS
			all.CPU += u.CPU + u.Reaped
		}
	}
	return all, err
}

// cpuOfTree returns the CPU time of a process and its descendants.
func cpuOfTree(pid int) (time.Duration, error) {
	u, err := usageOf(pid)
	if err != nil {
		return 0, err
	}
	pids, err := childrenOf(pid)
	all := u.CPU + u.Reaped
	for _, child := range pids {
		if cpu, err := cpuOfTree(child); err == nil {
			all += cpu
		}
	}
	return all, err
}

func childrenOf(pid int) (all []int, err error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	for _, thread := range threads {
		list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		if err != nil {
			continue // the thread has exited
		}
		for field := range strings.FieldsSeq(string(list)) {
			if id, err := strconv.Atoi(field); err == nil {
				all = append(all, id)
			}
		}
	}
	return all, nil
}

// writtenByTree returns the bytes that a process and its children have written to disks. It leaves out processes of other
// users, and ended processes.
func writtenByTree(pid int) (all int64) {
	pids, err := childrenOf(pid)
	if err != nil {
		return 0
	}
	for _, one := range append(pids, pid) {
		if n, err := procstat.Written(one); err == nil {
			all += n
		}
	}
	return all
}

// Fields of /proc/PID/stat, counted after the name.
const (
	statParent         = 1
	statUser           = 11
	statSystem         = 12
	statChildrenUser   = 13
	statChildrenSystem = 14
)

func usageOf(pid int) (u usage, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, writ.Errorf(writ.CodeUsage, "cannot read the usage of a process: %v", err).WithHint("this benchmark needs Linux")
	}
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			u.RSS = kib << 10
		case "VmHWM":
			u.Peak = kib << 10
		}
	}
	fields, err := procstat.Fields(pid)
	if err != nil {
		return u, err
	}
	ticks := func(i int) time.Duration {
		if i >= len(fields) {
			return 0
		}
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return time.Duration(n) * time.Second / procstat.Ticks
	}
	u.CPU, u.Reaped = ticks(statUser)+ticks(statSystem), ticks(statChildrenUser)+ticks(statChildrenSystem)
	return u, nil
}
