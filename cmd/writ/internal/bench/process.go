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
	"sync"
	"time"

	"writ/internal/timerslack"
)

// Names of the hidden commands that call Serve.
const (
	SupervisorName = "supervisor"
	RunnerName     = "runner"
	// CoordinatorName is the command of a coordinator for growth.
	CoordinatorName = "coordinator"
)

// Serve runs a daemon of a benchmark in this process. run serves until its context ends, and the context ends when the
// input `in` ends. When the daemon is ready, and after each line of input, Serve collects garbage and writes the memory
// statistics as a line of JSON. It writes a CPU profile to the file profile, unless that is "".
func Serve(ctx context.Context, run func(ctx context.Context, ready func()) error, profile string, in io.Reader, out io.Writer) (err error) {
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
	// The error of Encode is ignored: it means that the parent has exited, and then the input ends too.
	err = run(ctx, func() { _ = answer.Encode(memoryOfThis()) })
	if ctx.Err() == nil {
		return err // the goroutine waits for input until the process exits
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

// memory holds memory statistics that a process reports about itself.
type memory struct {
	Heap       int64 `json:"heap"` // reachable bytes
	Goroutines int   `json:"goroutines"`
}

func memoryOfThis() memory {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{Heap: int64(m.HeapAlloc), Goroutines: runtime.NumGoroutine()}
}

// child is a measured component in a child process.
type child struct {
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
}

// startChild runs a hidden command of this program. It returns when it has decoded the first message of the child into
// hello. Addresses with passwords are passed by the environment, because all users of the machine can read arguments.
func startChild(
	ctx context.Context, log io.Writer, hello any, env []string, name string, args ...string,
) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return startProgram(ctx, log, hello, env, name, self, append([]string{"bench", name}, args...)...)
}

// startProgram starts a program that writes lines of JSON. It returns when it has decoded the first line into hello. All
// measured systems get the timer slack of writ's daemons.
func startProgram(ctx context.Context, log io.Writer, hello any, env []string, name, path string, args ...string) (_ *child, err error) {
	c := &child{name: name, cmd: exec.CommandContext(ctx, path, args...)}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stderr = log
	c.cmd.WaitDelay = 10 * time.Second
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	c.cmd.Cancel = c.in.Close // the program exits when its input is closed
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.answers = json.NewDecoder(out)
	if err := timerslack.Start(timerslack.Daemon, c.cmd.Start); err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	if err := c.answers.Decode(hello); err != nil {
		return nil, errors.Join(fmt.Errorf("the %s did not start: %w", name, err), c.end())
	}
	return c, nil
}

// memory makes the process collect garbage and returns its memory statistics.
func (c *child) memory() (m memory, err error) {
	return m, c.ask(nil, &m)
}

// ask writes a question as a line of JSON and reads the answer.
func (c *child) ask(question, answer any) error {
	err := json.NewEncoder(c.in).Encode(question)
	if err == nil {
		err = c.answers.Decode(answer)
	}
	if err != nil {
		return fmt.Errorf("ask the %s: %w", c.name, err)
	}
	return nil
}

// end stops the process and waits for its exit.
func (c *child) end() error {
	_ = c.in.Close() // Wait returns the failure
	return c.cmd.Wait()
}

// kill ends the process abruptly, like a power failure.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the %s: %w", c.name, err)
	}
	_ = c.cmd.Wait() // the error only reports the kill
	return nil
}

// givenAddresses are the results of freeAddress. The kernel may choose the same port again until a process listens there.
var givenAddresses sync.Map

// freeAddress returns an unused address on loopback, a different one each time.
func freeAddress() (string, error) {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		address := l.Addr().String()
		l.Close()
		if _, given := givenAddresses.LoadOrStore(address, true); !given {
			return address, nil
		}
	}
}
