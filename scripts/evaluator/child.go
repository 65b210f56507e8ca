package evaluator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/scripts"
)

// child is one process that carries out passes, one at a time.
type child struct {
	cmd      *exec.Cmd
	in       *os.File      // requests go in here
	out      *os.File      // answers come out here
	deaths   *os.File      // what it writes when it dies
	layers   Layers        // what confines it, as it says
	patience time.Duration // how long it may take for an answer
	programs map[writ.Digest]bool
	journals journals // that it keeps
	version  uint64   // of the last journal that it was told
}

// startChild starts a process and waits until it is confined. Its files are pipes, so that every wait can have an end.
func startChild(ctx context.Context, executable string, patience time.Duration) (*child, error) {
	c, err := launch(executable)
	if err != nil {
		return nil, err
	}
	c.patience = maxWall
	w := c.watch(ctx)
	defer context.AfterFunc(ctx, w.wake)()
	var g greeting
	if err := w.readFrame(&g); err != nil {
		words := c.end()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("start a child: %w (%s) %s", err, c.cmd.ProcessState, words)
	}
	c.layers, c.patience = g.Layers, patience
	return c, nil
}

func launch(executable string) (*child, error) {
	var ends [3][2]*os.File // each with the end to read and the one to write
	closeAll := func() {
		for _, pair := range ends {
			for _, f := range pair {
				if f != nil {
					_ = f.Close()
				}
			}
		}
	}
	for i := range ends {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		ends[i] = [2]*os.File{r, w}
	}
	cmd := exec.Command(executable, childArgument)
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.SysProcAttr = attributes()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = ends[0][0], ends[1][1], ends[2][1]
	if err := cmd.Start(); err != nil {
		closeAll()
		return nil, fmt.Errorf("start a child: %w", err)
	}
	for _, theirs := range []*os.File{ends[0][0], ends[1][1], ends[2][1]} {
		_ = theirs.Close()
	}
	return &child{cmd: cmd, in: ends[0][1], out: ends[1][0], deaths: ends[2][0], programs: make(map[writ.Digest]bool),
		journals: journals{most: maxJournals}}, nil
}

// end kills the process if it lives, waits for it, and returns its last words.
func (c *child) end() string {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	words, _ := io.ReadAll(io.LimitReader(c.deaths, 4<<10))
	for _, f := range []*os.File{c.in, c.out, c.deaths} {
		_ = f.Close()
	}
	return strings.TrimSpace(string(words))
}

// pass asks for a pass, with no more of bundle and journal than the child needs. After an error the child is of no use any more and must
// be ended.
func (c *child) pass(ctx context.Context, bundle *scripts.Bundle, r request, journal []scripts.Entry) (*answer, error) {
	run := r.Inputs.Run
	c.version++
	r.Journal = c.journals.difference(run, c.version, journal)
	if !c.programs[r.Program] {
		r.Bundle = bundle
	}
	a, err := c.ask(ctx, &r)
	if err == nil && a.Outcome == nil { // forgotten meanwhile
		r.Bundle, r.Journal = bundle, difference{Version: c.version, Count: len(journal), Entries: journal}
		a, err = c.ask(ctx, &r)
	}
	if err != nil {
		return nil, err
	}
	if a.Outcome == nil {
		return nil, errors.New("the child has all that it needs and did not evaluate it")
	}
	c.programs[r.Program] = true
	c.journals.take(run, r.Journal)
	c.journals.settle(run, a.Outcome)
	return a, nil
}

// plan asks for a plan. After an error the child is of no use any more and must be ended.
func (c *child) plan(ctx context.Context, r request) (*answer, error) {
	a, err := c.ask(ctx, &r)
	if err == nil && a.Plan == nil {
		err = errors.New("the child has all that it needs and did not plan")
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (c *child) ask(ctx context.Context, r *request) (*answer, error) {
	frame, err := appendFrame(r)
	if err != nil {
		return nil, err
	}
	w := c.watch(ctx)
	defer context.AfterFunc(ctx, w.wake)()
	if err := w.write(frame); errors.Is(err, syscall.EPIPE) {
		return nil, errGone
	} else if err != nil {
		return nil, err
	}
	var a answer
	if err := w.readFrame(&a); err != nil {
		return nil, err
	}
	return &a, nil
}

// errGone means that the child was dead before it read the request.
var errGone = errors.New("the child is gone")

// glance is how often a child that works is looked at.
const glance = 200 * time.Millisecond

var (
	errCPU  = fmt.Errorf("took more than %v of CPU time", maxCPU)
	errWall = errors.New("did not answer in time")
)

// watch ends the wait for a child that works too long, or that nobody waits for any more.
type watch struct {
	ctx   context.Context
	child *child
	began time.Time
	cpu   time.Duration // that the child had used when it was first looked at, -1 before
	look  time.Time     // when it is looked at next, whatever it says until then: it may say one byte at a time
}

func (c *child) watch(ctx context.Context) *watch {
	return &watch{ctx: ctx, child: c, began: time.Now(), cpu: -1, look: time.Now().Add(glance)}
}

// wake makes a wait look at ctx.
func (w *watch) wake() {
	past := time.Unix(1, 0)
	_ = w.child.in.SetWriteDeadline(past)
	_ = w.child.out.SetReadDeadline(past)
}

// overdue says why not to wait longer, nil if there is no reason.
func (w *watch) overdue() error {
	used := cpuOf(w.child.cmd.Process.Pid)
	if w.cpu < 0 {
		w.cpu = max(0, used-glance) // it began before the first look, but not long
	}
	switch {
	case w.ctx.Err() != nil:
		return context.Cause(w.ctx)
	case used-w.cpu > maxCPU:
		return errCPU
	case time.Since(w.began) > w.child.patience:
		return errWall
	default:
		return nil
	}
}

func (w *watch) write(frame []byte) error {
	for len(frame) > 0 {
		if err := w.child.in.SetWriteDeadline(w.look); err != nil {
			return fmt.Errorf("write frame: %w", err)
		}
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		n, err := w.child.in.Write(frame)
		frame = frame[n:]
		if err := w.judge(err); err != nil {
			return fmt.Errorf("write frame: %w", err)
		}
	}
	return nil
}

// read reads into buf until it has at least so many bytes, and returns how many.
func (w *watch) read(buf []byte, least int) (n int, err error) {
	for n < least {
		if err := w.child.out.SetReadDeadline(w.look); err != nil {
			return n, fmt.Errorf("read frame: %w", err)
		}
		if w.ctx.Err() != nil {
			return n, context.Cause(w.ctx)
		}
		more, err := w.child.out.Read(buf[n:])
		n += more
		if err := w.judge(err); err != nil {
			return n, fmt.Errorf("read frame: %w", err)
		}
	}
	return n, nil
}

// mostAnswers is how many bytes most answers have at the most.
const mostAnswers = 4 << 10

// readFrame reads one frame. The child is silent behind it: more would be the word of one that was taken over.
func (w *watch) readFrame(v any) error {
	buf := make([]byte, mostAnswers)
	n, err := w.read(buf, frameHead)
	if err != nil {
		return err
	}
	size, err := frameSize(buf)
	if err != nil {
		return err
	}
	body := buf[frameHead:n]
	switch {
	case len(body) > size:
		return fmt.Errorf("read frame: %d bytes follow it", len(body)-size)
	case len(body) < size:
		begun := len(body)
		body = append(make([]byte, 0, size), body...)[:size]
		if _, err := w.read(body[begun:], size-begun); err != nil {
			return err
		}
	}
	if err := cbor.Decode(body, v); err != nil {
		return fmt.Errorf("read frame: %w", err)
	}
	return nil
}

// judge turns the end of a wait into a reason to go on or not.
func (w *watch) judge(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.look = time.Now().Add(glance)
		return w.overdue()
	}
	return err
}
