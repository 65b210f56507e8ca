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

// Payload implements nodes.Backend. It returns no payload of an ended run. The parts that Supervisor embeds implement
// the other methods.
func (s *Supervisor) Payload(ctx context.Context, digest writ.Digest) ([]byte, error) {
	return s.programs.Payload(ctx, digest)
}
