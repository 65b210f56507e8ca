package supervisord

import (
	"context"
	"fmt"

	"writ/cmd/writ/internal/config"
	"writ/identity/chain"
	"writ/supervisor"
)

// keepRosters stores the journal's rosters in the data directory, where an attacker with write access to the database
// cannot remove them.
func (s *Supervisor) keepRosters(ctx context.Context, super *supervisor.Supervisor, rosters config.Rosters) error {
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
