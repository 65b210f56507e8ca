package mycelium

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
)

// versionCache holds the version of the daemon that was asked last, because the answer takes a process.
type versionCache struct {
	mu      sync.Mutex
	pid     int
	version string
}

// of returns the version of a running daemon, "" if it is unknown.
func (c *versionCache) of(ctx context.Context, pid int, args []string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid != pid {
		c.pid, c.version = pid, versionOf(ctx, pid, args)
	}
	return c.version
}

// versionOf runs the program of a process, which may no longer be on PATH, to get its version. It returns "" if that
// fails.
func versionOf(ctx context.Context, pid int, args []string) string {
	if len(args) == 0 {
		return ""
	}
	cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/%d/exe", pid))
	cmd.Args = []string{args[0], "--version"}
	said, err := cmd.Output()
	if err != nil {
		return ""
	}
	words := strings.Fields(string(said)) // "mycelium 0.7.10"
	if len(words) < 2 || len(words[1]) > 40 {
		return ""
	}
	return strings.TrimPrefix(words[1], "v")
}
