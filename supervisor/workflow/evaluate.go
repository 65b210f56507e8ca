package workflow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sleep"
	"writ/scripts"
	"writ/supervisor/journal"
)

// maxCrashes is the number of consecutive deaths of the evaluator, while it evaluates a run, after which the run fails.
const maxCrashes = 3

// Limits of the log lines of a project, in bytes per second and in a burst. Every line is written to two stores and
// sent to all readers in one stream with the end events of all runs. In a measurement, a project that logged 30 MiB per
// second delayed other runs by seconds. A burst of 8 MiB delayed them by half a second.
const (
	logBytes     = 1 << 20
	logBytesOnce = 512 << 10
	// lineBytes is added to the length of each line, because storing and sending even a short line has a cost.
	lineBytes = 1 << 10
	// logPatience limits the delay of a pass. Even the longest possible log of a run fits into this time.
	logPatience = 6 * time.Second
)

// pass is the outcome of a script's evaluation.
type pass struct {
	scripts.Outcome
	kept int // number of its log lines that are stored
}

// evaluate runs a pass of the script. It returns nil if no pass is needed. After maxCrashes deaths of the evaluator the
// outcome is a failure of the script.
func (a *Advancer) evaluate(ctx context.Context, t *Step) (*pass, error) {
	if t.resumed || !wantsPass(t) {
		return nil, nil
	}
	t.calls.entries.update(&t.calls, t.touched)
	past := scripts.Past{
		Ended: firstEnded(&t.calls), Resumes: t.run.Resumes, First: t.calls.first,
		Earlier: earlierEntries(a.Journal, t.run, t.calls.first),
	}
	outcome, err := a.Programs.Pass(ctx, t.run, t.calls.entries.complete(t.calls.all), past)
	if err != nil { // the evaluator may still read the entries
		t.calls.entries = nil
	}
	switch {
	case err == nil:
		kept, err := a.admitLog(ctx, t.run.Project, outcome.Logs)
		return &pass{outcome, kept}, err
	case writ.CodeOf(err) == writ.CodeEvaluatorCrashed && ctx.Err() == nil:
		t.run.Crashes++
		if t.run.Crashes >= maxCrashes {
			failure := &writ.Failure{Error: *writ.AsError(err), Position: lastPosition(t.calls.all)}
			return &pass{Outcome: scripts.Outcome{Status: scripts.Failed, Failure: failure}}, nil
		}
		return nil, a.keepCrashes(ctx, t.run)
	default:
		return nil, fmt.Errorf("evaluate: %w", err)
	}
}

// earlierEntries returns a function that reads the first calls of a run, for a pass that needs all of them.
func earlierEntries(j *journal.Journal, run *journal.Run, first int) func(ctx context.Context) ([]scripts.Entry, error) {
	return func(ctx context.Context) (entries []scripts.Entry, err error) {
		err = j.Read(ctx, func(tx *journal.Tx) error {
			entries = make([]scripts.Entry, 0, first)
			return journal.EachCall(tx, run, first, func(c *journal.Call) error {
				entries = append(entries, entryOf(c))
				return nil
			})
		})
		return entries, err
	}
}

// keepCrashes stores the number of crashes at once, so that a script that also kills the host of the supervisor fails
// after a few attempts. It always returns an error, which repeats the step.
func (a *Advancer) keepCrashes(ctx context.Context, run *journal.Run) error {
	a.Warnings.Warn("", "evaluator ended", "run", run.ID, "signer", run.Signer, "crashes", run.Crashes)
	err := a.Journal.Write(failpoint.At(ctx, failpoint.EvaluatorDied), func(tx *journal.Tx) error {
		stored, err := tx.Run(run.ID)
		if err != nil || stored == nil { // if the database has lost the run, the next step detects it
			return err
		}
		stored.Crashes = run.Crashes
		return tx.PutRun(stored)
	})
	if err != nil {
		return err
	}
	return writ.Errorf(writ.CodeEvaluatorCrashed, "evaluating the script killed its process %d times", run.Crashes)
}

// admitLog waits until a project may log the lines of a pass. It returns the number of lines that are kept; lines that
// would have to wait longer than logPatience are dropped. It reserves the time of all lines at once. Passes that
// reserved line by line would wait for each other and end at the same moment.
func (a *Advancer) admitLog(ctx context.Context, project writ.ProjectID, lines []string) (kept int, err error) {
	costs := make([]int, len(lines))
	for i, line := range lines {
		costs[i] = lineBytes + len(line)
	}
	kept, wait := a.logs.ReserveEach(string(project), costs, logPatience)
	if wait > 0 {
		defer a.Mailbox.Slowed(project)()
	}
	return kept, sleep.For(ctx, wait)
}

// wantsPass reports whether a pass can have a new outcome now.
func wantsPass(t *Step) bool {
	return t.blocked == "" && unevaluated(t) && heldRun(t) == nil
}

// unevaluated reports whether a pass can have a new outcome once the run may start.
func unevaluated(t *Step) bool {
	if t.run.State.Ended() || t.run.Stop != nil || t.run.Completed {
		return false
	}
	return len(t.run.Waiting) == 0 || slices.ContainsFunc(t.run.Waiting, func(seq int) bool {
		c := t.calls.at(seq)
		return lacks(&t.calls, seq) || c != nil && c.State.Ended()
	})
}

// lastPosition returns the position of the last call in the script.
func lastPosition(calls []*journal.Call) string {
	if len(calls) == 0 {
		return ""
	}
	return calls[len(calls)-1].Position
}

// entryList holds calls of a callList as input of a pass, from the beginning of callList.all.
type entryList []scripts.Entry

// complete returns the entries of all calls. They are valid until the next call of complete or update.
func (l *entryList) complete(all []*journal.Call) []scripts.Entry {
	for _, c := range all[len(*l):] {
		*l = append(*l, entryOf(c))
	}
	return *l
}

// update applies the changes of calls.
func (l entryList) update(calls *callList, touched map[int]bool) {
	for seq := range touched {
		if at := seq - calls.first - 1; at >= 0 && at < len(l) {
			l[at] = entryOf(calls.all[at])
		}
	}
}

// entryOf returns a call as input of a pass.
func entryOf(c *journal.Call) scripts.Entry {
	e := scripts.Entry{Seq: c.Seq, Hash: c.Hash, State: scripts.EntryOpen}
	switch {
	case c.State == writ.CallSucceeded:
		e.State, e.Values = scripts.EntrySucceeded, c.Values
	case c.State.Ended():
		e.State, e.Error = scripts.EntryFailed, c.Error
	}
	return e
}
