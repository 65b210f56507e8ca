package supervisor

import (
	"context"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// hostsPerSecond limits the host reports of a node, and hostsAtOnce is their burst. Runners check their machine every
// half minute.
const (
	hostsPerSecond = 0.1
	hostsAtOnce    = 5
)

func (s *Supervisor) hearHost(_ context.Context, node writ.NodeID, r *nodes.HostReport) {
	if r.Node != node {
		s.warnings.Refused(node, "node reported the machine of another node", ofAnother(r.Node))
		s.accounts.countUseless(node, extraReports, 1)
		return
	}
	if _, may := s.hosts.Reserve(string(node), 1, 0); !may {
		s.accounts.countUseless(node, extraReports, 1)
		s.warnings.Refused(node, "node reports its machine too often; some reports are dropped",
			tooOften("%g a second are heard", hostsPerSecond))
		return
	}
	s.fleet.Machines.Describe(*r, s.epoch, s.Now())
}

// keepOnline writes the counted online time before the supervisor ends. A killed supervisor loses it, together with the
// listening time.
func (s *Supervisor) keepOnline(tx *journal.Tx) error {
	s.fleet.Machines.AddOnline(s.Now())
	return putLives(tx, s.fleet.Machines.Unstored())
}

func putLives(tx *journal.Tx, lives []journal.Life) error {
	for _, l := range lives {
		if err := tx.PutLife(l); err != nil {
			return err
		}
	}
	return nil
}
