package containerd

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/containerd/runtimespec"
	"writ/sal/logfile"
)

// maxOutput limits each output of a program in the result of container.exec, in bytes.
const maxOutput = 24 << 10

// exec runs a program in the container. If ctx ends, so does the program.
func (j *job) exec(ctx context.Context, r *record, args *catalog.ContainerExec) (sal.Outcome, error) {
	now, err := inspect(ctx, j.daemon, r.Own.Container)
	if err != nil {
		return sal.Outcome{}, err
	}
	if !now.running() {
		return sal.Outcome{}, writ.Errorf(writ.CodeResourceConflict, "%s is stopped", r.Resource).
			WithHint("start it with container.start")
	}
	p := &program{job: j, pipes: j.pipes(execPipes)}
	if p.input, err = args.Stdin.Reveal(); err != nil {
		return sal.Outcome{}, err
	}
	env, err := variables(args.Env)
	if err != nil {
		return sal.Outcome{}, err
	}
	secrets, err := secretsOfProgram(ctx, j, r, args)
	if err != nil {
		return sal.Outcome{}, err
	}
	exit, err := p.run(ctx, r.Own.Container, args.Command, env)
	if err != nil {
		return sal.Outcome{}, err
	}
	outcome, err := j.outcome(ctx, r, writ.ChangeUpdated)
	if err != nil {
		return sal.Outcome{}, err
	}
	outcome.Values["exit_code"] = int64(exit)
	outcome.Values["stdout"], outcome.Values["stderr"] = p.out.text(secrets), p.err.text(secrets)
	return outcome, nil
}

// secretsOfProgram returns the secrets that a program receives: in the environment of its container, in its own
// environment and as its input. They must be hidden in its output, because everyone with read access to the project can
// read it.
func secretsOfProgram(
	ctx context.Context, j *job, r *record, args *catalog.ContainerExec,
) (logfile.Secrets, error) {
	all, err := secretsOf(ctx, j, r)
	if err != nil {
		return nil, err
	}
	if all == nil {
		all = logfile.Secrets{}
	}
	return all, addMasks(all, append(slices.Collect(maps.Values(args.Env)), args.Stdin))
}

// program is a program that runs in a container.
type program struct {
	*job
	pipes    string // directory for its pipes
	input    string
	out, err ending
}

func (p *program) run(ctx context.Context, container string, command, env []string) (exit uint32, err error) {
	c, err := p.daemon.LoadContainer(ctx, container)
	if err != nil {
		return 0, failed("find the container", err)
	}
	spec, err := c.Spec(ctx)
	if err != nil {
		return 0, failed("inspect the container", err)
	}
	task, err := c.Task(ctx, nil)
	if err != nil {
		return 0, failed("find the container's process", err)
	}
	process := *spec.Process
	process.Args, process.Env, process.Terminal = command, append(process.Env, env...), false
	if err := runtimespec.CheckWords(process.Args, process.Env); err != nil {
		return 0, err
	}

	defer os.RemoveAll(p.pipes)
	// The shim does not detect the end of the input; CloseIO has to announce it.
	ended := make(chan struct{})
	input := &signalled{Reader: strings.NewReader(p.input), end: sync.OnceFunc(func() { close(ended) })}
	p.Step.step("run the program")
	// A cancelled start might still begin later, with no caller left to end the program. Therefore, the start is
	// completed even if ctx ends, and the program is ended afterwards.
	starting, started := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer started()
	e, err := task.Exec(starting, "exec-"+strings.ToLower(rand.Text()), &process,
		cio.NewCreator(cio.WithStreams(input, &p.out, &p.err), cio.WithFIFODir(p.pipes)))
	if err != nil {
		return 0, failed("run the program", err)
	}
	defer func() { err = errors.Join(err, p.finish(ctx, e)) }()
	// Wait does not end with ctx, because it must also report the end of a program that is killed after ctx has ended.
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	status, err := e.Wait(waiting)
	if err != nil {
		return 0, failed("wait for the program", err)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := e.Start(starting); err != nil {
		return 0, notStarted("run the program", err)
	}
	for {
		select {
		case <-ended:
			ended = nil
			if err := e.CloseIO(ctx, client.WithStdinCloser); err != nil && !gone(err) {
				return 0, failed("end the program's input", err)
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		case s := <-status:
			if err := s.Error(); err != nil {
				return 0, failed("wait for the program", err)
			}
			// The process can end before all of its output has arrived.
			drained(ctx, e.IO(), func() int64 { return p.out.length() + p.err.length() })
			return s.ExitCode(), nil
		}
	}
}

// After the end of a program, its outputs are read until they are closed, are silent for quietTime, or drainTime has
// passed.
const (
	quietTime = 2 * time.Second
	drainTime = 30 * time.Second
)

// drained waits within these limits until the outputs are read to their end. Without limits, a process that the program
// left running could keep them open, and write to them, forever.
func drained(ctx context.Context, outputs cio.IO, length func() int64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		outputs.Wait() // ends when finish closes them
	}()
	late := time.NewTimer(drainTime)
	defer late.Stop()
	quiet := time.NewTicker(quietTime)
	defer quiet.Stop()
	for had := length(); ; {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-late.C:
			return
		case <-quiet.C:
			if now := length(); now > had {
				had = now
				continue
			}
			return
		}
	}
}

// finish removes a program from the daemon, after killing it if it still runs.
func (p *program) finish(ctx context.Context, e client.Process) error {
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if ctx.Err() != nil {
		ended, err := e.Wait(undo)
		if err == nil && e.Kill(undo, syscall.SIGKILL) == nil {
			<-ended
		}
	}
	if _, err := e.Delete(undo, client.WithProcessKill); err != nil && !gone(err) {
		return failed("remove the program", err)
	}
	return nil
}

// Directories for the pipes of programs, below the directory of their container. Each program has its own subdirectory.
const (
	execPipes  = "exec"  // of container.exec
	probePipes = "probe" // of health checks
)

func (j *job) pipes(name string) string { return filepath.Join(placeOf(j.Dir, j.Resource), name) }

// endPrograms ends programs whose runner died. It first opens the pipes of the programs. A shim waits until they are
// open, and meanwhile answers no other request about the container.
func (j *job) endPrograms(ctx context.Context, r *record) error {
	dirs := []string{j.pipes(execPipes)}
	if _, running := j.probing.Load(j.Resource.HostName()); !running {
		dirs = append(dirs, j.pipes(probePipes))
	}
	var paths []string
	for _, dir := range dirs {
		found, err := filesBelow(dir)
		if err != nil {
			return sal.HostError("find programs of a runner that died", err)
		}
		paths = append(paths, found...)
	}
	if len(paths) == 0 {
		return nil
	}
	j.Step.step("end the programs of a runner that died")
	programs := map[string]bool{}
	for _, path := range paths {
		pipe, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err != nil {
			return sal.HostError("open the pipes of a program", err)
		}
		defer pipe.Close()
		name := filepath.Base(path)
		programs[name[:strings.LastIndexByte(name, '-')]] = true // the names are ID-stdin, ID-stdout and ID-stderr
	}
	task, err := j.task(ctx, r.Own.Container)
	for id := range programs {
		if err == nil {
			err = endProgram(ctx, task, id)
		}
	}
	if err != nil && !gone(err) {
		return failed("end a program whose runner died", err)
	}
	for _, dir := range dirs {
		if err := os.RemoveAll(dir); err != nil {
			return sal.HostError("remove the pipes of a program", err)
		}
	}
	return nil
}

// filesBelow returns the paths of all files in the subdirectories of dir. A missing dir is not an error. It does not
// use filepath.Glob, because dir may contain any characters.
func filesBelow(dir string) (paths []string, err error) {
	within, err := os.ReadDir(dir)
	for _, d := range within {
		files, failed := os.ReadDir(filepath.Join(dir, d.Name()))
		if err = errors.Join(err, failed); err != nil {
			return nil, err
		}
		for _, f := range files {
			paths = append(paths, filepath.Join(dir, d.Name(), f.Name()))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return paths, err
}

func endProgram(ctx context.Context, task client.Task, id string) error {
	e, err := task.LoadProcess(ctx, id, nil)
	if gone(err) {
		return nil
	}
	if err == nil {
		_, err = e.Delete(ctx, client.WithProcessKill)
	}
	if gone(err) {
		return nil
	}
	return err
}

// signalled calls end when its reader is exhausted.
type signalled struct {
	io.Reader
	end func()
}

func (s *signalled) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil {
		s.end()
	}
	return n, err
}

// ending is a writer that keeps the last bytes written to it.
type ending struct {
	mu   sync.Mutex
	kept []byte
	all  int64 // total bytes written
}

// length returns the number of bytes written.
func (e *ending) length() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all
}

// Write never fails.
func (e *ending) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept = append(e.kept, b...)
	e.all += int64(len(b))
	if len(e.kept) > 4*maxOutput { // rarely, to keep the cost low
		e.kept = append(e.kept[:0], e.kept[len(e.kept)-maxOutput:]...)
	}
	return len(b), nil
}

// text returns the end of the written bytes, at most maxOutput bytes, with secrets replaced.
func (e *ending) text(secrets logfile.Secrets) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := printable(e.kept[max(0, len(e.kept)-maxOutput):])
	if e.all > maxOutput {
		text = secrets.HideEnd([]byte(text))
	} else {
		text = secrets.Hide([]byte(text))
	}
	return printable([]byte(text[max(0, len(text)-maxOutput):])) // a name may be longer than the secret that it replaces
}

// printable converts output to text: invalid bytes become question marks, and the rest of a character that was cut at
// the beginning is dropped.
func printable(b []byte) string {
	for range utf8.UTFMax - 1 {
		if len(b) > 0 && !utf8.RuneStart(b[0]) {
			b = b[1:]
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "?"), "\x00", "?")
}
