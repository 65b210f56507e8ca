package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/cmd/writ/internal/daemon"
)

// ChildName is the name of the hidden command that Serve stands behind.
const ChildName = "supervisor"

// Serve runs a supervisor for a benchmark in this process, until in ends. It says with a line of JSON when it serves, and answers every
// line of in with what it has in memory after a collection of garbage.
func Serve(ctx context.Context, s *daemon.Supervisor, profile string, in io.Reader, out io.Writer) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if profile != "" {
		end, err := startProfile(profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	answer := json.NewEncoder(out)
	asked := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if err := answer.Encode(memoryOfThis()); err != nil {
				break
			}
		}
		stop()
		asked <- lines.Err()
	}()
	err = s.Run(ctx, func() { _ = answer.Encode(memoryOfThis()) }) // nobody reads it: then in ends, too
	if ctx.Err() == nil {
		return err // in goes on until the process ends
	}
	return errors.Join(err, <-asked)
}

func startProfile(path string) (end func() error, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("write the profile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// memory is what a process says of its own memory.
type memory struct {
	Heap       int64 `json:"heap"` // bytes that are reachable
	Goroutines int   `json:"goroutines"`
}

func memoryOfThis() memory {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{Heap: int64(m.HeapAlloc), Goroutines: runtime.NumGoroutine()}
}

// child is a supervisor in a process of its own.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
	started time.Time
	ready   time.Duration // from its start until it served
}

// startChild starts this program again as a supervisor and returns when it serves.
func startChild(ctx context.Context, log io.Writer, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	c := &child{cmd: exec.CommandContext(ctx, self, append([]string{"bench", ChildName}, args...)...), started: time.Now()}
	c.cmd.Stderr = log
	c.cmd.WaitDelay = 10 * time.Second
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	c.cmd.Cancel = c.in.Close // it ends by itself when nobody asks it any more
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.answers = json.NewDecoder(out)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a supervisor: %w", err)
	}
	var m memory
	if err := c.answers.Decode(&m); err != nil {
		return nil, errors.Join(fmt.Errorf("the supervisor did not start: %w", err), c.end())
	}
	c.ready = time.Since(c.started)
	return c, nil
}

// memory collects the garbage of the supervisor and returns what is left.
func (c *child) memory() (m memory, err error) {
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		return m, fmt.Errorf("ask the supervisor: %w", err)
	}
	if err := c.answers.Decode(&m); err != nil {
		return m, fmt.Errorf("ask the supervisor: %w", err)
	}
	return m, nil
}

// end stops the supervisor and waits for it.
func (c *child) end() error {
	_ = c.in.Close() // Wait says what went wrong
	return c.cmd.Wait()
}

// kill ends the supervisor as a power failure would.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the supervisor: %w", err)
	}
	_ = c.cmd.Wait() // that it was killed is no news
	return nil
}

// usage is what the kernel says of a process.
type usage struct {
	RSS, Peak int64         // bytes
	CPU       time.Duration // that it has used
}

func (c *child) usage() (usage, error) { return usageOf(c.cmd.Process.Pid) }

// children returns the memory of the processes that the supervisor has started, in bytes: its evaluators.
func (c *child) children() (rss int64, err error) {
	pid := c.cmd.Process.Pid
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0, err
	}
	for _, thread := range threads {
		list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		if err != nil {
			continue // the thread is gone
		}
		for _, field := range strings.Fields(string(list)) {
			id, _ := strconv.Atoi(field)
			if u, err := usageOf(id); err == nil {
				rss += u.RSS
			}
		}
	}
	return rss, nil
}

// ticksPerSecond is the unit of times in /proc/PID/stat on every Linux.
const ticksPerSecond = 100

func usageOf(pid int) (u usage, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, writ.Errorf(writ.CodeUsage, "the memory of a process cannot be read: %v", err).WithHint("this benchmark needs Linux")
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
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name in parentheses may hold anything
	if fields := strings.Fields(after); len(fields) > 12 {
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		u.CPU = time.Duration(user+system) * time.Second / ticksPerSecond
	}
	return u, nil
}

// freeAddress returns an address of loopback on which nobody listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
