package supervisord

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

// protectedFile records that the journal has authentication codes. It is beside the key, where an attacker with write
// access to the database cannot remove it.
const protectedFile = "journal.protected"

// The content of protectedFile. Earlier versions wrote only the first line.
const (
	rowsProtected   = "The journal of this supervisor carries authentication codes. Without this file it would take records without one, once.\n"
	valuesProtected = "So do its values that decide something.\n"
)

// isProtected reports whether the rows and values of a data directory's journal are known to have authentication codes.
func isProtected(data string) (rows, values bool, err error) {
	text, err := os.ReadFile(filepath.Join(data, protectedFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, false, nil
	}
	return err == nil, strings.Contains(string(text), valuesProtected), err
}

// noteProtected records that the journal of a data directory has authentication codes.
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

// keep stores facts in the data directory that an attacker with write access to the database must not remove: the
// protection of the journal, and its rosters.
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
