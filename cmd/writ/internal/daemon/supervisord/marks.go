package supervisord

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"writ"
	"writ/cmd/writ/internal/backup"
	"writ/cmd/writ/internal/config"
	"writ/supervisor/journal"
	"writ/supervisor/takeover"
)

// markFile holds the last known head of a supervisor's journal.
const markFile = "journal.mark"

// marks stores the known state of a supervisor's journal in files beside its key. The note of an operator about a
// restored journal is never removed; the mark names the last note that was applied.
type marks struct{ dir string }

var _ takeover.Marks = marks{}

type markText struct {
	journal.Head
	Heard string `json:"heard,omitempty"` // the last applied note
}

func (m marks) Read() (mark takeover.Mark, err error) {
	text, err := m.text()
	if err != nil {
		return mark, err
	}
	said, err := m.said()
	return takeover.Mark{Head: text.Head, Restored: said != "" && said != text.Heard}, err
}

func (m marks) Keep(head journal.Head) error {
	text, err := m.text()
	if err != nil {
		return err
	}
	text.Head = head
	return m.keep(text)
}

func (m marks) Heard() error {
	text, err := m.text()
	if err == nil {
		text.Heard, err = m.said()
	}
	if err != nil {
		return err
	}
	return m.keep(text)
}

// Seen returns the last known head of the journal in a data directory. It is zero without a mark.
func Seen(dir string) (journal.Head, error) {
	text, err := marks{dir}.text()
	return text.Head, err
}

// said returns the operator's last note, or "".
func (m marks) said() (string, error) {
	text, err := os.ReadFile(filepath.Join(m.dir, backup.RestoredMark))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

func (m marks) text() (t markText, err error) {
	path := filepath.Join(m.dir, markFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(text, &t); err != nil {
		return t, writ.Errorf(writ.CodeDataIncomplete, "%s is damaged: %w", path, err).
			WithHint("delete it, and run `writ restore --mark --data %s` unless the journal is certainly the newest", m.dir)
	}
	return t, nil
}

func (m marks) keep(t markText) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return config.WriteFile(filepath.Join(m.dir, markFile), append(text, '\n'))
}
