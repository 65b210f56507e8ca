package boot

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/efi/boot/reach"
	"writ/efi/progress"
	"writ/internal/wake"
)

// nodeStage runs the runner of the node.
type nodeStage struct {
	*Machine
	reporter
	programs  *programs
	logs      *logs
	config    *Config
	work      *sync.WaitGroup
	failing   wake.Signal                     // signals that the runner logged an error
	complaint atomic.Pointer[progress.Report] // the runner's last error
}

// serve runs the runner until ctx ends and restarts it when it exits.
func (n *nodeStage) serve(ctx context.Context) {
	for wait := time.Duration(0); ; {
		began, held := time.Now(), false
		status, err := n.runRunner(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			held = n.cannotStart(err)
		case status.Exited() && status.ExitStatus() == writ.ExitRemoved:
			n.Stage("runner", "the datacenter has removed this node; give the machine another token and start it again")
			n.status.end(describe(status))
			return
		default:
			held = n.reportEnd(describe(status))
		}
		wait = pauseOfRunner(wait, time.Since(began), held)
		n.Show("runner", "starts again in "+wait.String())
		if awaitRetry(ctx, n.status, progress.Limit{Most: wait, Then: runnerAgain}) != nil {
			return
		}
	}
}

// keepToken passes the token to the runner in a file that only root can read.
func (n *nodeStage) keepToken() error {
	if n.config.Join == "" || n.config.Join == "@"+TokenAt {
		return nil
	}
	if err := os.WriteFile(TokenAt, []byte(n.config.Join+"\n"), 0o600); err != nil {
		return fmt.Errorf("pass the token to the runner: %w", err)
	}
	n.config.Join = "@" + TokenAt
	return nil
}

// cannotStart reports that the runner failed to start. It returns true if the previous failure was the same.
func (n *nodeStage) cannotStart(err error) (held bool) {
	n.showFailure(progress.StageRunner, err)
	held = n.status.end(err.Error())
	r := progress.Failure(progress.StageRunner, err)
	r.Held = held
	n.report(r)
	return held
}

// reportEnd reports how the runner exited, with its last error for the boot server. It returns true if the previous
// failure was the same.
func (n *nodeStage) reportEnd(how string) (held bool) {
	n.Show("runner", "ended with "+how)
	held = n.status.end("ended with " + how)
	r := progress.Report{Stage: progress.StageRunner, Text: "ended with " + how, Failed: true, Held: held}
	if known := n.known(); known.Text != "" {
		r.Text, r.Next = r.Text+": "+known.Text, known.Next
	}
	if held {
		n.Show("runner", "held: it ended twice in the same way")
	}
	n.report(r)
	return held
}

// known returns the current problems: the last error of the runner, and problems that do not stop the start.
func (n *nodeStage) known() (r progress.Report) {
	if last := n.complaint.Load(); last != nil {
		r = *last
	}
	n.status.update(func(s *nodeState) bool { r = s.beside.addTo(r); return false })
	return r
}

// runnerSays shows a line of the runner and updates the status and the reports from it.
func (n *nodeStage) runnerSays(line string) {
	line = n.Redact(line)
	n.line(line)
	n.logs.runner(line)
	var report progress.Report
	ok := false
	if n.Means != nil {
		report, ok = n.Means(line)
	}
	report.Held = n.status.look(report, ok)
	if ok {
		n.complain(report)
	}
}

// complain reports the content of a line of the runner. A hint belongs to the preceding error and is stored with it;
// both are reported when the runner exits.
func (n *nodeStage) complain(r progress.Report) {
	last := n.complaint.Load()
	switch {
	case r.Text == "" && r.Next != "":
		if last != nil {
			n.complaint.Store(&progress.Report{Text: last.Text, Next: r.Next})
		}
		return
	case r.Failed:
		said := r
		n.complaint.Store(&said)
		r = n.known()
	default:
		n.complaint.Store(nil)
	}
	r.Node = n.NodeOnDisk()
	n.report(r)
	if r.Failed {
		n.failing.Raise() // explain then reports the result of a diagnosis
	}
}

// runRunner runs the runner once. When ctx ends, it stops the runner and waits for its exit.
func (n *nodeStage) runRunner(ctx context.Context) (unix.WaitStatus, error) {
	n.status.begin()
	if err := n.keepToken(); err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	n.work.Go(func() { n.explain(running) })
	return n.programs.run(ctx, "runner", slices.Concat([]string{Program}, n.Runner(*n.config)), n.runnerSays, func(pid int) {
		n.Show("runner", fmt.Sprintf("started as process %d", pid))
		// If a problem is known, this report must not replace the report about it on the boot server.
		if n.known().Text == "" {
			n.report(progress.Report{Stage: progress.StageRunner, Text: "started"})
		}
	})
}

// Delays before the first and between further diagnoses. An error of the runner triggers a diagnosis at once.
const (
	silentFor = 3 * time.Second
	lookAgain = 30 * time.Second
)

// explain reports why the runner does not reach its datacenter, until ctx ends.
func (n *nodeStage) explain(ctx context.Context) {
	p := reach.New("/etc/resolv.conf")
	for next := time.After(silentFor); ; {
		select {
		case <-n.failing:
		case <-next:
		case <-ctx.Done():
			return
		}
		if next = nil; n.status.fine() {
			continue
		}
		err := p.Servers(ctx, n.config.Supervisors, n.config.Redis)
		if ctx.Err() != nil {
			return
		}
		n.unreachable(err)
		next = time.After(lookAgain)
	}
}

// unreachable reports an unreachable server, unless the same error is already reported. A nil error clears the problem.
func (n *nodeStage) unreachable(err error) {
	r := progress.Report{Stage: progress.StageRunner}
	if err != nil {
		r = progress.Failure(progress.StageRunner, err)
	}
	if !n.status.update(func(s *nodeState) bool { return s.beside.put(r) }) || err == nil {
		return
	}
	for _, one := range progress.Flatten(err) {
		n.showFailure("reach", one)
	}
	known := n.known()
	r.Text, r.Next = known.Text, known.Next
	n.report(r)
}
