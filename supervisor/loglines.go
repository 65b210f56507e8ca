package supervisor

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/internal/sleep"
	"writ/supervisor/journal"
)

// What the scripts of a project log in a second, and at once, in bytes. Every line is written to two stores and told to everybody who follows,
// in one line with the ends of all runs: a project that logged 30 MiB a second made runs of others take seconds, and 8 MiB at once half a second.
const (
	logBytes     = 1 << 20
	logBytesOnce = 512 << 10
	// lineBytes is what a line counts besides its text: a short one costs the stores, the link and the coordinator as much as one of 2 KiB does.
	lineBytes = 1 << 10
	// logPatience is how long a pass waits until its project may log what it adds. It is enough for the longest log of a run.
	logPatience = 6 * time.Second
)

// admitLog waits until a project may log the lines that a pass adds, and returns how many of them are kept: what would come later than logPatience
// is not. The place of all lines is taken at once: passes that took it line by line would wait for each other and all end in the same moment. The
// pass has its step meanwhile, so that others of its project wait for it and nobody else does.
func (s *Supervisor) admitLog(ctx context.Context, project writ.ProjectID, lines []string) (kept int, err error) {
	costs := make([]int, len(lines))
	for i, line := range lines {
		costs[i] = lineBytes + len(line)
	}
	kept, wait := s.logRates.ReserveEach(string(project), costs, logPatience)
	if wait > 0 {
		defer s.steps.Slowed(project)()
	}
	return kept, sleep.For(ctx, wait)
}

// keepLog keeps the lines that a pass adds to the log. If some are not kept, a line says so in their place.
func (t *step) keepLog(tx *journal.Tx, p *pass) error {
	lines := p.Logs[:p.kept:p.kept]
	if dropped := len(p.Logs) - p.kept; dropped > 0 {
		lines = append(lines, fmt.Sprintf("%d lines are dropped here: scripts of the project %s log more than %d MiB a second", dropped, t.run.ProjectName, logBytes>>20))
	}
	for i, text := range lines {
		line := writ.LogLine{Run: t.run.ID, Ordinal: t.run.Logs + i + 1, Text: text, Time: t.now}
		if err := tx.AddLog(line); err != nil {
			return err
		}
		t.events = append(t.events, writ.Event{Log: &line})
	}
	return nil
}
