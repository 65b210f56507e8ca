package evaluator

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpuUsed returns the CPU time of this process, by a call that the filter allows.
func cpuUsed() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// cpuOf returns the CPU time of another process, or 0 if it is gone. The clock is readable even if the files of the
// process in /proc are not.
func cpuOf(pid int) time.Duration {
	const scheduled = 2 // the clock of a process that counts its scheduled time
	return clock(int32(^pid<<3 | scheduled))
}

func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// attributes put children into their own process group, so that signals from a terminal do not reach them: only their
// parent ends them.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// yieldTo lowers the priority of all threads of a process that was started with attributes. The process gets a higher
// nice value than this process, so it gets a tenth of a contended processor. It also gets long time slices, so that
// waking threads preempt it at once instead of at the end of a slice. With a tenth of a processor, a pass uses maxCPU
// within a third of maxWall. Kernels before 6.12 ignore slices.
func yieldTo(pid int) {
	const nicer, mostNice, slice = 10, 19, 100 * time.Millisecond
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return
	}
	own := 20 - raw // the system call returns 20 - nice, from 1 to 40
	nice := min(own+nicer, mostNice)
	_ = unix.Setpriority(unix.PRIO_PGRP, pid, nice)
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			_ = unix.SchedSetAttr(id, &unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: int32(nice), Runtime: uint64(slice)}, 0)
		}
	}
}

// ownBinary returns the path of this program, even if its file was replaced.
func ownBinary() (string, error) { return "/proc/self/exe", nil }
