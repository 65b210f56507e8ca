package evaluator

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// confine gives up what a child does not need. It is called before the first byte of a script is read, and what it sets up holds for the
// rest of the process's life: everything that confines children belongs here.
func confine() error {
	for _, limit := range []struct {
		name     string
		resource int
		value    uint64
	}{
		// Of the limits on memory this is the one that stops a process of Go cleanly; RLIMIT_AS keeps it from starting.
		{"memory", unix.RLIMIT_DATA, maxMemory},
		{"CPU time", unix.RLIMIT_CPU, uint64(maxLifeCPU / time.Second)},
		{"core dumps", unix.RLIMIT_CORE, 0},
		{"file sizes", unix.RLIMIT_FSIZE, 0},
		{"files", unix.RLIMIT_NOFILE, maxFiles},
	} {
		if err := unix.Setrlimit(limit.resource, &unix.Rlimit{Cur: limit.value, Max: limit.value}); err != nil {
			return fmt.Errorf("limit %s: %w", limit.name, err)
		}
	}
	return nil
}

// cpuUsed returns the CPU time of this process.
func cpuUsed() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// cpuOf returns the CPU time of another process, 0 if it is gone.
func cpuOf(pid int) time.Duration {
	const ticksPerSecond = 100 // of this file, on every architecture
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // from the third field: the second may hold spaces
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(string(fields[11]), 10, 64)
	system, _ := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

// attributes keep the signals of a terminal from children: they end when their parent lets them.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// ownBinary is this program, even if another file has its name by now.
func ownBinary() (string, error) { return "/proc/self/exe", nil }
