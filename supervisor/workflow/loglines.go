package workflow

import (
	"fmt"

	"writ"
	"writ/supervisor/journal"
)

// keepLog keeps the lines that a pass adds to the log. If some are not kept, a line says so in their place.
func (t writer) keepLog(tx *journal.Tx, p *pass) error {
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
