package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/efi/progress"
)

// serve runs the runner until ctx ends and restarts it when it exits.
func (m *machine) serve(ctx context.Context) {
	for wait := time.Duration(0); ; {
		began, held := time.Now(), false
		status, err := m.runRunner(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			held = m.cannotStart(err)
		case status.Exited() && status.ExitStatus() == writ.ExitRemoved:
			m.Stage("runner", "the datacenter has removed this node; give the machine another token and start it again")
			m.status.end(describe(status))
			return
		default:
			held = m.reportEnd(describe(status))
		}
		wait = pauseOfRunner(wait, time.Since(began), held)
		m.Show("runner", "starts again in "+wait.String())
		if m.status.pauses(ctx, progress.Limit{Most: wait, Then: runnerAgain}) != nil {
			return
		}
	}
}

// keepToken passes the token to the runner in a file that only root can read.
func (m *machine) keepToken() error {
	if m.config.Join == "" || m.config.Join == "@"+TokenAt {
		return nil
	}
	if err := os.WriteFile(TokenAt, []byte(m.config.Join+"\n"), 0o600); err != nil {
		return fmt.Errorf("pass the token to the runner: %w", err)
	}
	m.config.Join = "@" + TokenAt
	return nil
}

// cannotStart reports that the runner failed to start. It returns true if the previous failure was the same.
func (m *machine) cannotStart(err error) (held bool) {
	m.showFailure(progress.StageRunner, err)
	held = m.status.end(err.Error())
	r := progress.Failure(progress.StageRunner, err)
	r.Held = held
	m.report(r)
	return held
}

// reportEnd reports how the runner exited, with its last error for the boot server. It returns true if the previous
// failure was the same.
func (m *machine) reportEnd(how string) (held bool) {
	m.Show("runner", "ended with "+how)
	held = m.status.end("ended with " + how)
	r := progress.Report{Stage: progress.StageRunner, Text: "ended with " + how, Failed: true, Held: held}
	if known := m.known(); known.Text != "" {
		r.Text, r.Next = r.Text+": "+known.Text, known.Next
	}
	if held {
		m.Show("runner", "held: it ended twice in the same way")
	}
	m.report(r)
	return held
}

// known returns the current problems: the last error of the runner, and problems that do not stop the start.
func (m *machine) known() (r progress.Report) {
	if last := m.complaint.Load(); last != nil {
		r = *last
	}
	return m.status.withBeside(r)
}

// runnerSays shows a line of the runner and updates the status and the reports from it.
func (m *machine) runnerSays(line string) {
	line = m.Redact(line)
	m.line(line)
	m.logs.runner(line)
	var report progress.Report
	ok := false
	if m.Means != nil {
		report, ok = m.Means(line)
	}
	report.Held = m.status.look(report, ok)
	if ok {
		m.complain(report)
	}
}

// complain reports the meaning of a line of the runner. A hint belongs to the preceding error; both are reported when
// the runner exits.
func (m *machine) complain(r progress.Report) {
	last := m.complaint.Load()
	switch {
	case r.Text == "" && r.Next != "":
		if last != nil {
			m.complaint.Store(&progress.Report{Text: last.Text, Next: r.Next})
		}
		return
	case r.Failed:
		said := r
		m.complaint.Store(&said)
		r = m.known()
	default:
		m.complaint.Store(nil)
	}
	r.Node = m.status.name()
	m.report(r)
	if r.Failed {
		select {
		case m.failing <- struct{}{}: // the result of the diagnosis is reported later
		default:
		}
	}
}

// runRunner runs the runner once. When ctx ends, it stops the runner and waits for its exit.
func (m *machine) runRunner(ctx context.Context) (unix.WaitStatus, error) {
	m.status.begin()
	if err := m.keepToken(); err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	m.work.Go(func() { m.explain(running) })
	return m.runChild(ctx, "runner", slices.Concat([]string{Program}, m.Runner(m.config)), m.runnerSays, func(pid int) {
		m.Show("runner", fmt.Sprintf("started as process %d", pid))
		// Otherwise the boot server keeps the report of the earlier exit until the node serves.
		if m.known().Text == "" {
			m.report(progress.Report{Stage: progress.StageRunner, Text: "started"})
		}
	})
}

// Run runs a program once and passes each output line to says. failed describes how it exited, "" for success.
func (m *machine) Run(
	ctx context.Context, name string, command []string, says func(line string),
) (failed string, err error) {
	status, err := m.runChild(ctx, name, command, says, func(int) {})
	if err == nil && (!status.Exited() || status.ExitStatus() != 0) {
		failed = describe(status)
	}
	return failed, err
}

// Waits shows the current wait of a stage.
func (m *machine) Waits(stage, text string, l progress.Limit) { m.status.waits(stage, text, l) }

// NodeOnDisk returns the name of the node whose data is mounted, "" if unknown.
func (m *machine) NodeOnDisk() string { return m.status.name() }

// runChild runs a program once and passes each output line to says. When ctx ends, it stops the program and waits for
// its exit.
func (m *machine) runChild(
	ctx context.Context, name string, command []string, says func(line string), started func(pid int),
) (unix.WaitStatus, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		_, _ = read.WriteTo(&lineWriter{show: says})
		read.Close()
	}()
	env := []string{"PATH=/usr/sbin:/usr/bin", "HOME=/root", "TMPDIR=/tmp"}
	pid, ended, err := m.processes.start(command[0], command, env, write)
	write.Close()
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", command[0], err)
	}
	started(pid)
	var status unix.WaitStatus
	select {
	case status = <-ended:
	case <-ctx.Done():
		stage := progress.StageOff
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			stage = name
		}
		_ = unix.Kill(pid, unix.SIGTERM)
		m.Show(stage, fmt.Sprintf("waits for %s to exit, at most %s; then %s", name, endLimit.Most, endLimit.Then))
		select {
		case status = <-ended:
			m.Show(stage, name+" has ended")
		case <-time.After(endLimit.Most):
			m.Show(stage, fmt.Sprintf("%s did not exit within %s and is killed", name, endLimit.Most))
			_ = unix.Kill(pid, unix.SIGKILL)
			status = <-ended
		}
	}
	// Processes that it left behind may still hold the pipe open.
	select {
	case <-heard:
	case <-time.After(time.Second):
	}
	return status, nil
}
