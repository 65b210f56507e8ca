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
)

// childArgument is the whole command line of a child, behind the name of the program.
const childArgument = "evaluator"

// What a child may have.
const (
	maxHeap    = 256 << 20       // bytes of memory for values; the collector works towards 40 % of it
	maxOther   = 96 << 20        // bytes of data besides: the kernel counts the whole stack of each thread, 8 MiB that are hardly touched
	maxFiles   = 16              // descriptors
	maxCPU     = 2 * time.Second // of one pass
	maxWall    = time.Minute     // of one pass: a machine may be so busy that its CPU time takes long, and nothing may wait for ever
	maxLifeCPU = 2 * time.Minute // of a whole life; the kernel ends a child that is left alone and does not stop
	retireCPU  = time.Minute     // after so much, a child asks to be replaced
)

// IsChild reports whether a process with these arguments (os.Args) was started by a Pool and must call Main, and nothing else.
func IsChild(args []string) bool {
	return slices.Equal(args[min(1, len(args)):], []string{childArgument})
}

// Main is what a child does: it gives up everything it does not need, then carries out passes until its parent closes the pipe. It
// returns the exit status.
func Main() int {
	runtime.GOMAXPROCS(1)      // each takes memory, and whoever wakes one up for a small pass waits for the rest of them
	debug.SetTraceback("none") // the text of a death must fit into a pipe that nobody reads before
	debug.SetMemoryLimit(maxHeap * 4 / 10)
	pace.Pace{Least: 24 << 20, Early: 50}.Keep() // collected every few passes, a small heap took more than half of a child's time
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

// requestsFrom lets Go's runtime wait for a pipe by itself, instead of in a call that reads. It watches over each thread that is in a call,
// and begins to once it returns: that woke up another thread for each list of requests, and took a seventh of a child's time.
func requestsFrom(pipe *os.File) io.Reader {
	fd := pipe.Fd()
	if err := syscall.SetNonblock(int(fd), true); err != nil {
		return pipe
	}
	return os.NewFile(fd, pipe.Name())
}

// serve greets, then answers requests until in ends. Used says how much CPU time the process has had.
func serve(in io.Reader, out io.Writer, layers Layers, used func() time.Duration) error {
	if err := writeFrame(out, greeting{Layers: layers}); err != nil {
		return err
	}
	kept := memory{journals: journals{most: maxJournals}}
	in = bufio.NewReaderSize(in, mostRequests) // most lists take one read
	answers := bufio.NewWriterSize(out, mostAnswers)
	for {
		var requests []request
		if err := readFrame(in, &requests); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		retire, err := kept.answerAll(requests, answers, used)
		if err != nil || retire {
			return err
		}
	}
}

const (
	// mostRequests is how many bytes most lists of requests have at the most.
	mostRequests = 16 << 10
	// holdBack is how long answers wait for those of other passes, to be written together.
	holdBack = 5 * time.Millisecond
)

// answerAll answers requests in order, and says with the last one whether the child ends.
func (m *memory) answerAll(requests []request, out *bufio.Writer, used func() time.Duration) (retire bool, err error) {
	wrote := time.Now()
	spent := used()
	for i := range requests {
		a, err := m.answer(&requests[i])
		if err != nil {
			return false, err
		}
		now, total := time.Now(), used()
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
		tidy()
	}
	return retire, nil
}

// tidy frees the memory of a big pass, while the parent has its answer already: it must not count against the next one. What is kept is
// no reason to: it would be one after every pass.
func tidy() {
	const big = 32 << 20
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(heap)
	if used, kept := heap[0].Value.Uint64(), heap[1].Value.Uint64(); used > kept+big {
		runtime.GC()
	}
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

// memory is what a child keeps from one request to the next.
type memory struct {
	programs programs
	journals journals
}

func (m *memory) answer(r *request) (*answer, error) {
	if r.Plan && r.Bundle != nil && r.Inputs != nil {
		defer runtime.GC() // plans are rare, and what is left of one must not count against the next pass
		plan, err := scripts.PlanOf(context.Background(), *r.Bundle, *r.Inputs)
		if err != nil {
			return nil, err
		}
		return &answer{Plan: &plan}, nil
	}
	c := m.programs.find(r.Program)
	if c == nil {
		if r.Bundle == nil {
			return &answer{}, nil
		}
		c = m.programs.compile(r.Program, *r.Bundle)
	}
	inputs := r.Inputs
	if k := m.journals.find(r.Run); inputs == nil && k != nil && r.Journal.Base != 0 {
		inputs = k.inputs.those
	}
	if inputs == nil || inputs.Run != r.Run {
		return &answer{}, nil
	}
	journal, ok := m.journals.take(r.Run, r.Journal)
	if !ok {
		return &answer{}, nil
	}
	m.journals.keep(r.Run, inputs)
	now := *inputs
	now.Logged = r.Logged
	outcome, err := c.pass(context.Background(), now, journal)
	if err != nil {
		return nil, err
	}
	m.journals.dropEnded(r.Run, &outcome)
	return &answer{Outcome: &outcome}, nil
}
