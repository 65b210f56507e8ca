package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"writ/cmd/writ/internal/config"
	"writ/identity/chain"
	"writ/supervisor"
)

// protectedFile says that the journal carries authentication codes. It is beside the key, where a database that belongs to somebody else cannot take
// it away.
const protectedFile = "journal.protected"

// What protectedFile says. Earlier versions wrote the first line only.
const (
	rowsProtected   = "The journal of this supervisor carries authentication codes. Without this file it would take records without one, once.\n"
	valuesProtected = "So do its values that decide something.\n"
)

// isProtected reports whether the journal of a data directory, and its values, are known to carry authentication codes.
func isProtected(data string) (rows, values bool, err error) {
	text, err := os.ReadFile(filepath.Join(data, protectedFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, false, nil
	}
	return err == nil, strings.Contains(string(text), valuesProtected), err
}

// noteProtected notes that the journal of a data directory carries authentication codes.
func noteProtected(data string) error {
	_, all, err := isProtected(data)
	if all || err != nil {
		return err
	}
	if err := config.WriteFile(filepath.Join(data, protectedFile), []byte(rowsProtected+valuesProtected)); err != nil {
		return fmt.Errorf("note that the journal is protected: %w", err)
	}
	return nil
}

// keep notes in the data directory what a database must not take away: that the journal is protected, and the rosters that it has.
func (s *Supervisor) keep(ctx context.Context, super *supervisor.Supervisor, rosters config.Rosters) error {
	if err := noteProtected(s.Data); err != nil {
		return err
	}
	latest, err := rosters.Latest()
	if err != nil {
		return err
	}
	after := 0
	if latest != nil {
		after = latest.Version
	}
	links, err := chain.CollectPages(after, func(after int) ([][]byte, error) { return super.Rosters(ctx, after) })
	if err == nil {
		_, err = rosters.Add(links...)
	}
	if err != nil {
		return fmt.Errorf("keep the rosters of the journal: %w", err)
	}
	return nil
}
