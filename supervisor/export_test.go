package supervisor

import (
	"writ"
	"writ/supervisor/journal"
)

// Known returns what the supervisor knows of a node, one that waits to be admitted included; nil if it knows none.
func (s *Supervisor) Known(id writ.NodeID) *journal.Node {
	if n := s.fleet.record(id); n != nil {
		return n
	}
	return s.pending.get(id)
}
