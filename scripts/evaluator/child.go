package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/scripts"
)

// child is a process that runs passes, one at a time.
type child struct {
	cmd      *exec.Cmd
	in       *os.File      // requests are written here
	out      *os.File      // answers are read here
	deaths   *os.File      // its standard error, with the reason of a crash
	layers   Layers        // the layers that it reported
	patience time.Duration // maximum time for an answer
	programs recent[struct{}]
	version  uint64        // of the last journal that was sent
	retired  bool          // it has announced its end
	slow     bool          // it runs slow passes and plans, with a low priority
	counted  time.Duration // the part of its CPU time that was charged
	buf      []byte        // buffer for reading answers

	mu       sync.Mutex
	journals journals // the journals that it holds
}

// startChild starts a process and waits until it is confined. Its files are pipes, so that every wait can time out.
func startChild(ctx context.Context, executable string, patience time.Duration) (*child, error) {
	c, err := launch(executable)
	if err != nil {
		return nil, err
	}
	c.patience = maxWall
	w := c.watch(ctx, nil)
	defer context.AfterFunc(ctx, w.wake)()
	var g greeting
	err = w.readFrame(&g)
	if err = cmp.Or(err, w.silent()); err != nil {
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
	var ends [3][2]*os.File // each with its read end and its write end
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
	return &child{cmd: cmd, in: ends[0][1], out: ends[1][0], deaths: ends[2][0],
		journals: journals{most: maxJournals, whole: keptWhole}}, nil
}

// end kills the process if it is alive, waits for it, and returns the last text on its standard error.
func (c *child) end() string {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	words, _ := io.ReadAll(io.LimitReader(c.deaths, 4<<10))
	for _, f := range []*os.File{c.in, c.out, c.deaths} {
		_ = f.Close()
	}
	return strings.TrimSpace(string(words))
}

// round requests passes, with only the parts of bundle and journal that the child lacks, and applies the answers in
// order. After an error the caller must end the child. Passes without an answer were not evaluated, or caused the
// error. Passes whose journals are too short for the child are marked and not requested. If `crowded` is not nil, passes
// stop after a quantum. A child that does not stop is ended if `crowded` reports that other work waits.
func (c *child) round(ctx context.Context, passes []*passing, crowded func() bool) error {
	yields := crowded != nil
	passes = slices.DeleteFunc(slices.Clone(passes), c.needsMore)
	if len(passes) == 0 {
		return nil
	}
	requests := make([]request, len(passes))
	for i, p := range passes {
		c.version++
		requests[i] = p.request
		if p.journalState == loaded {
			requests[i].Journal = wholeJournal(p.request.Inputs, c.version, p.journal)
		} else {
			requests[i].Journal = c.journals.difference(p.request.Inputs, c.version, p.journal)
		}
		if requests[i].Journal.Base != 0 && c.journals.find(p.request.Run).inputs.same(p.request.Inputs) {
			requests[i].Inputs = nil
		}
		requests[i].Yields = yields
		if c.programs.has(p.request.Program) {
			requests[i].Bundle = nil
		}
	}
	var forgotten []*passing
	err := c.ask(ctx, requests, crowded, func(i int, a *answer) error {
		if a.Outcome == nil && !a.Stopped {
			passes[i].used(a)
			if passes[i].request.Inputs.First > 0 {
				passes[i].journalState = tooShort
			} else {
				forgotten = append(forgotten, passes[i])
			}
			return nil
		}
		return c.learn(passes[i], &requests[i], a)
	})
	for _, p := range forgotten {
		if err == nil {
			err = c.resend(ctx, p, crowded)
		}
	}
	return err
}

// needsMore reports whether the journal of a pass is too short for the child, and marks the pass.
func (c *child) needsMore(p *passing) bool {
	if p.request.Inputs.First == 0 || c.journals.base(p.request.Inputs, p.journal) != nil {
		return false
	}
	p.journalState = tooShort
	return true
}

// resend repeats the request for a pass with all data, because the child had dropped a part of it.
func (c *child) resend(ctx context.Context, p *passing, crowded func() bool) error {
	c.version++
	r := p.request
	r.Journal = wholeJournal(r.Inputs, c.version, p.journal)
	r.Yields = crowded != nil
	return c.ask(ctx, []request{r}, crowded, func(_ int, a *answer) error {
		if a.Outcome == nil && !a.Stopped {
			return errors.New("the child has all data and did not run the pass")
		}
		return c.learn(p, &r, a)
	})
}

// learn validates and applies the answer to a pass, and records the program and journal that the child has now.
func (c *child) learn(p *passing, r *request, a *answer) error {
	if a.Stopped && (!r.Yields || a.Outcome != nil) {
		return errors.New("the child stopped a pass without a time limit")
	}
	if a.Outcome != nil {
		if err := a.Outcome.Check(*p.request.Inputs, p.journal); err != nil {
			return err
		}
	}
	c.compiled(p.request.Program, p.size)
	c.mu.Lock()
	c.journals.apply(p.request.Run, r.Journal)
	c.journals.storeInputs(p.request.Run, p.request.Inputs)
	if a.Outcome != nil {
		c.journals.dropEnded(p.request.Run, a.Outcome)
	}
	c.mu.Unlock()
	p.used(a)
	if a.Stopped {
		p.stops++
		return nil
	}
	p.answer(*a.Outcome)
	return nil
}

// compiled records that the child used a program.
func (c *child) compiled(program writ.Digest, size int) {
	if _, found := c.programs.find(program); !found {
		c.programs.add(program, size, struct{}{})
	}
}

// compile asks the child to compile a program, and returns the CPU time. After an error the caller must end the child.
func (c *child) compile(
	ctx context.Context, program writ.Digest, bundle *scripts.Bundle,
) (took time.Duration, err error) {
	r := request{Program: program, Bundle: bundle, Compile: true}
	err = c.ask(ctx, []request{r}, nil, func(_ int, a *answer) error {
		if a.Outcome != nil || a.Plan != nil || a.Stopped {
			return errors.New("the child did not compile the program")
		}
		took = max(a.Compile, 0)
		return nil
	})
	if err == nil {
		c.compiled(program, sizeOf(bundle))
	}
	return took, err
}

// fit returns how well the child fits a waiter, from 0. The run's journal counts most, unless the program is heavy,
// which means expensive to compile.
func (c *child) fit(w *waiter, heavy bool) (points int) {
	if w.pass != nil && c.hasJournal(w.pass.request.Run) {
		points += 2
	}
	if c.programs.has(w.program) {
		points++
		if heavy {
			points += 2
		}
	}
	return points
}

// hasJournal reports whether the child has the journal of a run. Unlike the other methods it is safe to call while the
// child works.
func (c *child) hasJournal(run writ.RunID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.journals.find(run) != nil
}

// plan requests a plan, and returns its CPU time. The plan is nil if it was stopped: see round. After an error the
// caller must end the child.
func (c *child) plan(
	ctx context.Context, r request, crowded func() bool,
) (plan *scripts.Plan, took time.Duration, err error) {
	r.Yields = crowded != nil
	err = c.ask(ctx, []request{r}, crowded, func(_ int, a *answer) error {
		plan, took = a.Plan, a.Took
		if (plan == nil) != (a.Stopped && r.Yields) {
			return errors.New("the child has all data and made no plan")
		}
		return nil
	})
	return plan, took, err
}

// ask writes requests and reads the answer to each of them, in order.
func (c *child) ask(
	ctx context.Context, requests []request, crowded func() bool, answered func(i int, a *answer) error,
) error {
	frame, err := appendFrame(requests)
	if err != nil {
		return err
	}
	w := c.watch(ctx, crowded)
	defer context.AfterFunc(ctx, w.wake)()
	defer func() {
		if cap(c.buf) > mostAnswers {
			c.buf = nil
		}
	}()
	if err := w.write(frame); errors.Is(err, syscall.EPIPE) {
		return errGone
	} else if err != nil {
		return err
	}
	for i := range requests {
		w.others = i < len(requests)-1
		var a answer
		if err := w.readFrame(&a); err != nil {
			return err
		}
		if i == len(requests)-1 {
			if err := w.silent(); err != nil {
				return err
			}
			c.retired = a.Retire
		}
		if err := answered(i, &a); err != nil {
			return err
		}
		w.again()
	}
	return nil
}

// errGone means that the child was dead before it read the request.
var errGone = errors.New("the child is gone")

// spent returns the CPU time of the child since the last call.
func (c *child) spent() time.Duration {
	used := cpuOf(c.cmd.Process.Pid)
	if state := c.cmd.ProcessState; state != nil { // it has ended
		used = state.UserTime() + state.SystemTime()
	}
	spent := max(used-c.counted, 0)
	c.counted = max(used, c.counted)
	return spent
}

// defaultCheckInterval is the interval of checks on a working child.
const defaultCheckInterval = 200 * time.Millisecond

// unyielding limits the CPU time of a request that should have stopped after a quantum. It leaves time to compile a
// small program, because a compilation does not stop.
const unyielding = 3 * quantum

var (
	errCPU  = fmt.Errorf("took more than %v of CPU time", maxCPU)
	errWall = errors.New("did not answer in time")
	errLong = fmt.Errorf("did not stop after %v of CPU time while other work waits", quantum)
)

// watch ends the wait for a child that works too long, or whose caller has given up.
type watch struct {
	ctx       context.Context
	child     *child
	crowded   func() bool   // reports whether work waits for the child; nil if that does not matter
	others    bool          // other passes wait in the same round
	began     time.Time     // the start of the wait for one answer
	cpu       time.Duration // the CPU time of the child at the time began
	nextCheck time.Time     // time of the next check, regardless of what the child sends: it may send one byte at a time
	unread    []byte        // bytes read but not decoded; a part of the child's buf
}

func (c *child) watch(ctx context.Context, crowded func() bool) *watch {
	w := &watch{ctx: ctx, child: c, crowded: crowded}
	w.again()
	return w
}

// again starts the wait for the next answer.
func (w *watch) again() {
	w.began, w.cpu = time.Now(), cpuOf(w.child.cmd.Process.Pid)
	w.nextCheck = w.began.Add(w.checkInterval())
}

// checkInterval returns the time until the next check.
func (w *watch) checkInterval() time.Duration {
	if w.crowded != nil {
		return quantum / 2
	}
	return defaultCheckInterval
}

// wake interrupts a wait, so that it checks ctx.
func (w *watch) wake() {
	past := time.Unix(1, 0)
	_ = w.child.in.SetWriteDeadline(past)
	_ = w.child.out.SetReadDeadline(past)
}

// overdue returns the reason to end the wait, or nil.
func (w *watch) overdue() error {
	used := cpuOf(w.child.cmd.Process.Pid) - w.cpu
	switch {
	case w.ctx.Err() != nil:
		return context.Cause(w.ctx)
	case used > maxCPU:
		return errCPU
	case w.crowded != nil && used > unyielding && (w.others || w.crowded()):
		return errLong
	case time.Since(w.began) > w.child.patience:
		return errWall
	default:
		return nil
	}
}

func (w *watch) write(frame []byte) error {
	for len(frame) > 0 {
		if err := w.child.in.SetWriteDeadline(w.nextCheck); err != nil {
			return fmt.Errorf("write frame: %w", err)
		}
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		n, err := w.child.in.Write(frame)
		frame = frame[n:]
		if err := w.reasonToEnd(err); err != nil {
			return fmt.Errorf("write frame: %w", err)
		}
	}
	return nil
}

// read waits until at least `least` bytes have arrived.
func (w *watch) read(least int) error {
	if cap(w.unread) < least {
		if cap(w.child.buf) < least {
			w.child.buf = make([]byte, 0, max(least, mostAnswers))
		}
		w.unread = append(w.child.buf[:0], w.unread...)
	}
	for len(w.unread) < least {
		if err := w.child.out.SetReadDeadline(w.nextCheck); err != nil {
			return fmt.Errorf("read frame: %w", err)
		}
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		n, err := w.child.out.Read(w.unread[len(w.unread):cap(w.unread)])
		w.unread = w.unread[:len(w.unread)+n]
		if err := w.reasonToEnd(err); err != nil {
			return fmt.Errorf("read frame: %w", err)
		}
	}
	return nil
}

// mostAnswers is a size in bytes that the answers of most rounds do not exceed.
const mostAnswers = 16 << 10

func (w *watch) readFrame(v any) error {
	if err := w.read(frameHead); err != nil {
		return err
	}
	size, err := frameSize(w.unread)
	if err != nil {
		return err
	}
	if err := w.read(frameHead + size); err != nil {
		return err
	}
	if err := cbor.Decode(w.unread[frameHead:frameHead+size], v); err != nil {
		return fmt.Errorf("read frame: %w", err)
	}
	w.unread = w.unread[frameHead+size:]
	return nil
}

// silent returns an error if bytes follow the last answer: they prove that a script has taken over the child.
func (w *watch) silent() error {
	if len(w.unread) > 0 {
		return fmt.Errorf("read frame: %d bytes follow the last frame", len(w.unread))
	}
	return nil
}

// reasonToEnd returns the error of a wait, or, if only a check was due, the result of that check.
func (w *watch) reasonToEnd(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.nextCheck = time.Now().Add(w.checkInterval())
		return w.overdue()
	}
	return err
}
