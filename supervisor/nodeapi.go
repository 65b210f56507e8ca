package supervisor

import (
	"context"

	"writ"
	"writ/supervisor/nodes"
)

var (
	_ nodes.Backend     = (*Supervisor)(nil)
	_ nodes.Members     = (*Supervisor)(nil)
	_ nodes.BootReports = (*Supervisor)(nil)
)

// Rosters implements nodes.Backend.
func (s *Supervisor) Rosters(ctx context.Context, after int) ([][]byte, error) {
	return s.rosters.Current().Chain().Path(after, s.rosters.Text(ctx))
}

// RosterPage implements nodes.Members.
func (s *Supervisor) RosterPage(after int) (start, newest int) {
	roster := s.rosters.Current()
	return roster.Chain().PageStart(after), roster.Version
}

// Payload implements nodes.Backend.
func (s *Supervisor) Payload(ctx context.Context, digest writ.Digest) ([]byte, error) {
	return s.programs.Payload(ctx, digest)
}
