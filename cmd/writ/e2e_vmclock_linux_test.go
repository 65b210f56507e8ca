package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// vmClock measures time for a process. It stops while a thread of the process waits for a processor, so that a time
// limit for a simulated machine also works on a busy host.
type vmClock struct {
	pid    int
	began  time.Time
	delays map[string]time.Duration // by thread, at began
}

func startClock(pid int) *vmClock {
	return &vmClock{pid: pid, began: time.Now(), delays: delaysOf(pid)}
}

// elapsed returns the time since the start, without the longest delay of a thread.
func (c *vmClock) elapsed() time.Duration {
	longest := time.Duration(0)
	for thread, delay := range delaysOf(c.pid) {
		longest = max(longest, delay-c.delays[thread])
	}
	return time.Since(c.began) - longest
}

// delaysOf returns how long each thread of a process has waited for a processor.
func delaysOf(pid int) map[string]time.Duration {
	all := map[string]time.Duration{}
	files, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task/*/schedstat"))
	for _, file := range files {
		text, _ := os.ReadFile(file) // the thread may have ended
		if fields := strings.Fields(string(text)); len(fields) == 3 {
			ns, _ := strconv.ParseInt(fields[1], 10, 64)
			all[file] = time.Duration(ns)
		}
	}
	return all
}

// Two processes share one processor, so each waits for it.
func TestClockStopsWhileProcessWaitsForProcessor(t *testing.T) {
	if len(delaysOf(os.Getpid())) == 0 {
		t.Skip("this kernel does not count the delays of threads")
	}
	var one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	first := 0
	for !one.IsSet(first) {
		first++
	}
	one.Zero()
	one.Set(first)
	var clock *vmClock
	for range 2 {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		if err := unix.SchedSetaffinity(cmd.Process.Pid, &one); err != nil {
			t.Fatal(err)
		}
		clock = startClock(cmd.Process.Pid)
	}
	for late := time.After(time.Minute); time.Since(clock.began)-clock.elapsed() < 100*time.Millisecond; {
		select {
		case <-late:
			t.Fatalf("the clock shows %s after %s", clock.elapsed(), time.Since(clock.began))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
