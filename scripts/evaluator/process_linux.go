package evaluator

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpuUsed returns the CPU time of this process. Of the calls that tell it, this is the one that the filter allows.
func cpuUsed() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// cpuOf returns the CPU time of another process, 0 if it is gone. Its clock can be read where its files in /proc cannot.
func cpuOf(pid int) time.Duration {
	const scheduled = 2 // of the clocks of a process, the one that counts what the scheduler gave it
	return clock(int32(^pid<<3 | scheduled))
}

func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// attributes keep the signals of a terminal from children: they end when their parent lets them.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// yieldTo lets everybody else go before a process of attributes, in all its threads: it is nicer than this one, so that it gets a tenth of a
// processor that others want, and its slices are long, so that whoever wakes up interrupts it at once instead of at the end of one. With a tenth,
// maxCPU lasts a third of maxWall. Kernels before 6.12 know of no slices.
func yieldTo(pid int) {
	const nicer, mostNice, slice = 10, 19, 100 * time.Millisecond
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return
	}
	own := 20 - raw // the system call tells 1 to 40, from nice to not
	nice := min(own+nicer, mostNice)
	_ = unix.Setpriority(unix.PRIO_PGRP, pid, nice)
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			_ = unix.SchedSetAttr(id, &unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: int32(nice), Runtime: uint64(slice)}, 0)
		}
	}
}

// ownBinary is this program, even if another file has its name by now.
func ownBinary() (string, error) { return "/proc/self/exe", nil }
