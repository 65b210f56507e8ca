package takeover

import (
	"context"
	"log/slog"
	"time"

	"writ/internal/sleep"
	"writ/supervisor/journal"
)

// Three sources in the datacenter show a restored journal: the mark beside the supervisor's key, the epochs that most
// nodes obeyed, and `writ restore`. Coordinators are not asked: a malicious coordinator could claim a restore at any
// time and make every run wait.

// Mark is the head of the journal as last stored beside the supervisor's key. The journal itself may be in a database
// on another host.
type Mark struct {
	journal.Head
	Restored bool `json:"-"` // `writ restore` restored the journal, and no supervisor has begun an epoch since
}

// Marks stores the mark.
type Marks interface {
	// Read returns the mark, or the zero value before the first Keep.
	Read() (Mark, error)
	// Keep replaces the head and leaves Restored unchanged.
	Keep(head journal.Head) error
	// Heard clears Restored after the supervisor has marked the journal as restored.
	Heard() error
}

// keepMarkEvery is the interval at which the mark is updated from the journal.
const keepMarkEvery = 10 * time.Second

// Marker compares the journal with its mark and updates the mark. All fields but Marks are required.
type Marker struct {
	Marks   Marks // nil: fewer restores are detected
	Journal *journal.Journal
	Log     *slog.Logger
}

// Compare compares the journal with the mark before an epoch begins. If the journal came from a backup, Compare marks
// it with CameFromBackup.
func (m *Marker) Compare(ctx context.Context) (Mark, error) {
	if m.Marks == nil {
		return Mark{}, nil
	}
	mark, err := m.Marks.Read()
	if err != nil {
		return mark, err
	}
	head, err := m.Journal.Head(ctx)
	if err == nil && (mark.Restored || head.Behind(mark.Head)) {
		text := "journal restored from a backup: its runs wait until every node has reported its inventory"
		if !mark.Restored {
			text += ". If it is a copy without journal.db-wal, stop the supervisor and copy the whole directory again"
		}
		m.Log.Warn(text, "epoch", head.Epoch, "event", head.Seq, "epoch_seen", mark.Epoch, "event_seen", mark.Seq,
			"said_by_operator", mark.Restored)
		m.Journal.CameFromBackup()
	}
	return mark, err
}

// Run updates the mark from the journal until ctx ends, and retries after errors. With an outdated mark, Compare only
// detects fewer restores.
func (m *Marker) Run(ctx context.Context) error {
	if m.Marks == nil {
		return nil
	}
	var kept journal.Head
	failing := false
	for ctx.Err() == nil {
		head, err := m.Journal.Head(ctx)
		if err == nil && head != kept {
			if err = m.Marks.Keep(head); err == nil {
				kept = head
			}
		}
		if err != nil && !failing && ctx.Err() == nil {
			m.Log.Warn("update the mark beside the key; trying again", "err", err)
		}
		failing = err != nil
		_ = sleep.For(ctx, keepMarkEvery)
	}
	return nil
}
