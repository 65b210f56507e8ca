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

// HasTurn reports whether a run has a turn, waits for one, or could not write its last one.
func (s *Supervisor) HasTurn(id writ.RunID) bool {
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	return s.turns.boxes[id] != nil
}

// SendAgain has a call sent again as whoever recovers does who read it a while ago.
func (s *Supervisor) SendAgain(c *journal.Call) {
	s.turns.post(c.Run, mail{again: []sending{sendingOf(c)}})
}
