package evaluator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"syscall"
	"time"

	"writ/internal/pace"
	"writ/scripts"
	"writ/scripts/interpreter"
)

// childArgument is the whole command line of a child, after the name of the program.
const childArgument = "evaluator"

// Limits of a child.
const (
	maxHeap = 256 << 20 // bytes of memory for values; the collector targets 40 % of it
	// Bytes of other data: the kernel counts the whole stack of each thread, 8 MiB that are mostly unused.
	maxOther   = 96 << 20
	maxFiles   = 16              // descriptors
	maxCPU     = 2 * time.Second // of one pass
	maxWall    = time.Minute     // of one pass: on a busy machine its CPU time takes long, and no wait may be unlimited
	maxLifeCPU = 2 * time.Minute // of a child's lifetime; the kernel ends an abandoned child that does not stop
	retireCPU  = time.Minute     // a child requests its replacement after this time
)

// IsChild reports whether a process with these arguments (os.Args) was started by a Pool. It must then call Main, and
// nothing else.
func IsChild(args []string) bool {
	return slices.Equal(args[min(1, len(args)):], []string{childArgument})
}

// Main runs a child: it confines the process, then runs passes until its parent closes the pipe. It returns the exit
// status.
func Main() int {
	runtime.GOMAXPROCS(1)      // each processor takes memory, and a wake-up for a small pass would wait for all of them
	debug.SetTraceback("none") // the text of a crash must fit into a pipe that is read only later
	debug.SetMemoryLimit(maxHeap * 4 / 10)
	// By default, Go collects a small heap every few passes, which took more than half of a child's time.
	pace.Pace{Least: 24 << 20, Early: 50}.Keep()
	in := requestsFrom(os.Stdin)
	layers, err := confine()
	if err != nil {
		fmt.Fprintln(os.Stderr, "evaluator: confine:", err)
		return 1
	}
	if err := serve(in, os.Stdout, layers, cpuUsed); err != nil {
		fmt.Fprintln(os.Stderr, "evaluator:", err)
		return 1
	}
	return 0
}

// requestsFrom makes the Go runtime poll the pipe instead of blocking in a read. The runtime monitors threads in
// blocking calls and wakes another thread when a call returns. Without polling, that happened for each list of
// requests, and took a seventh of a child's time.
func requestsFrom(pipe *os.File) io.Reader {
	fd := pipe.Fd()
	if err := syscall.SetNonblock(int(fd), true); err != nil {
		return pipe
	}
	return os.NewFile(fd, pipe.Name())
}

// warmUp makes the tables of the language, which are made at their first use. Otherwise the first script of a child
// would pay for them with a part of its quantum.
func warmUp() {
	script := `volume := import("volume"); text := import("text"); volume.create("a", {size_gib: 1})`
	p, err := interpreter.Compile(scripts.Bundle{Main: scripts.Source{Name: "warm.tengo", Text: []byte(script)}})
	if err == nil {
		_, _ = p.Pass(context.Background(), scripts.Inputs{}, nil) // these inputs allow no call
	}
}

// serve writes a greeting, then answers requests until the input `in` ends. `used` returns the CPU time of the process.
func serve(in io.Reader, out io.Writer, layers Layers, used func() time.Duration) error {
	warmUp()
	if err := writeFrame(out, greeting{Layers: layers}); err != nil {
		return err
	}
	kept := newMemory(used)
	kept.suspended.heap = func() uint64 { used, _ := heapBytes(); return used }
	in = bufio.NewReaderSize(in, mostRequests) // most lists need one read
	answers := bufio.NewWriterSize(out, mostAnswers)
	for {
		var requests []request
		if err := readFrame(in, &requests); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		retire, err := kept.answerAll(requests, answers)
		if err != nil || retire {
			return err
		}
	}
}

const (
	// mostRequests is a size in bytes that most lists of requests do not exceed.
	mostRequests = 16 << 10
	// holdBack is the maximum delay of an answer, so that several answers are written together.
	holdBack = 5 * time.Millisecond
)

// answerAll answers requests in order. The last answer reports whether the child ends.
func (m *memory) answerAll(requests []request, out *bufio.Writer) (retire bool, err error) {
	wrote := time.Now()
	spent := m.used()
	for i := range requests {
		a, err := m.answer(&requests[i])
		if err != nil {
			return false, err
		}
		now, total := time.Now(), m.used()
		a.Took, spent = total-spent, total
		last := i == len(requests)-1
		a.Retire = last && (a.Outcome != nil || a.Plan != nil) && total > retireCPU
		retire = a.Retire
		if err := writeFrame(out, a); err != nil {
			return false, err
		}
		if last || now.Sub(wrote) > holdBack {
			if err := out.Flush(); err != nil {
				return false, fmt.Errorf("write frame: %w", err)
			}
			wrote = now
		}
		if tidy() {
			spent = m.used()
		}
	}
	return retire, nil
}

// tidy frees the memory of a big pass after its answer is sent, so that neither the memory nor the time to free it
// counts against the next pass. Memory that stays between passes is ignored. It reports whether it ran a collection.
func tidy() bool {
	const big = 32 << 20
	used, kept := heapBytes()
	if used <= kept+big {
		return false
	}
	runtime.GC()
	return true
}

// heapBytes returns the bytes of all values, including garbage, and of the values that the last collection kept.
func heapBytes() (used, kept uint64) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(heap)
	return heap[0].Value.Uint64(), heap[1].Value.Uint64()
}

func writeFrame(out io.Writer, v any) error {
	frame, err := appendFrame(v)
	if err != nil {
		return err
	}
	if _, err := out.Write(frame); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

// memory is the state of a child between requests.
type memory struct {
	programs  programs
	journals  journals
	suspended suspendedPasses
	used      func() time.Duration // returns the CPU time of the process
}

func newMemory(used func() time.Duration) *memory {
	return &memory{journals: journals{most: maxJournals, whole: keptWhole}, suspended: suspendedPasses{most: maxSuspended}, used: used}
}

func (m *memory) answer(r *request) (*answer, error) {
	switch {
	case r.Plan && r.Bundle != nil && r.Inputs != nil:
		return m.plan(r)
	case r.Compile && r.Bundle != nil:
		_, took := m.program(r)
		return &answer{Compile: took}, nil
	default:
		return m.pass(r)
	}
}

func (m *memory) plan(r *request) (*answer, error) {
	defer runtime.GC() // the garbage of a plan must not count against the next pass
	ctx, done := m.bound(r)
	defer done()
	plan, err := interpreter.PlanOf(ctx, *r.Bundle, *r.Inputs)
	if errors.Is(err, errQuantum) {
		return &answer{Stopped: true}, nil
	} else if err != nil {
		return nil, err
	}
	return &answer{Plan: &plan}, nil
}

func (m *memory) pass(r *request) (*answer, error) {
	c, took := m.program(r)
	a := &answer{Compile: took}
	if c == nil {
		return a, nil
	}
	inputs := r.Inputs
	if k := m.journals.find(r.Run); inputs == nil && k != nil && r.Journal.Base != 0 {
		inputs = k.inputs.those
	}
	if inputs == nil || inputs.Run != r.Run {
		return a, nil
	}
	journal, ok := m.journals.apply(r.Run, r.Journal)
	if !ok {
		return a, nil
	}
	m.journals.storeInputs(r.Run, inputs)
	ctx, done := m.bound(r)
	defer done()
	outcome, err := m.suspended.evaluate(ctx, m.suspended.take(r.Run), c, inputs, &r.Journal, journal, r.Logged)
	switch {
	case errors.Is(err, errPart):
		m.journals.forget(r.Run)
		return a, nil
	case errors.Is(err, errQuantum):
		a.Stopped = true
		return a, nil
	case err != nil:
		return nil, err
	}
	m.journals.dropEnded(r.Run, &outcome)
	a.Outcome = &outcome
	return a, nil
}

// program returns the program of a request, and the CPU time to compile it, or 0 if it was compiled before. The program
// is nil if the request must be repeated with the bundle.
func (m *memory) program(r *request) (c *compiled, took time.Duration) {
	if c = m.programs.find(r.Program); c != nil || r.Bundle == nil {
		return c, 0
	}
	before := m.used()
	c = m.programs.compile(r.Program, r.Bundle)
	m.suspended.dropUnless(m.programs.has) // so that they keep no program in memory
	return c, max(m.used()-before, 1)
}

// errQuantum is the cause of the end of a request that yields.
var errQuantum = errors.New("the request used up its quantum")

// bound returns the context of a request. If the request yields, the context ends after a quantum of CPU time.
func (m *memory) bound(r *request) (ctx context.Context, done func()) {
	if !r.Yields {
		return context.Background(), func() {}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	began := m.used()
	var look func()
	look = func() {
		switch left := quantum - (m.used() - began); {
		case ctx.Err() != nil:
		case left <= 0:
			cancel(errQuantum)
		default:
			time.AfterFunc(left, look)
		}
	}
	timer := time.AfterFunc(quantum, look)
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}
