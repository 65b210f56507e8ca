package supervisor

import (
	"slices"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
	"writ/supervisor/mailbox"
	"writ/supervisor/placement"
)

// shares divides the room of nodes between projects.
type shares struct {
	fleet   *fleet
	steps   *mailbox.Scheduler
	roster  func() *identity.Roster
	weights map[string]int // by the names of projects
}

// Lines implements Shares. It returns the lines at a node that come into question for its room, beginning behind the project that was served there last, and
// in any case that of own, if it is not "". However many projects wait, it looks at few more than have calls out there or can get a place.
func (s *shares) Lines(tx *journal.Tx, node writ.NodeID, now time.Time, room int, own writ.ProjectID) (lines []placement.Line, err error) {
	first, err := nextProject(tx, node, s.fleet.lastServed(node), now)
	if err != nil {
		return nil, err
	}
	second, err := nextProject(tx, node, first, now)
	if err != nil {
		return nil, err
	}
	out := map[writ.ProjectID]int{} // does not matter for who is alone
	if first != second || own != "" && own != first {
		if out, err = tx.SentByProject(node); err != nil {
			return nil, err
		}
	}
	most := room
	if s.steps.AnyStalled() {
		most += journal.MaxCalls // so that there is somebody behind one that is left out
	}
	stand := func(project writ.ProjectID) (placement.Line, error) {
		runs, err := tx.Sendable(node, project, now, most)
		// Runs in trouble are left out: they would not use their places.
		return placement.Line{Project: project, Weight: s.Weight(project), Sent: out[project], Runs: slices.DeleteFunc(runs, s.steps.IsStalled)}, err
	}
	idle := 0 // projects that have nothing out there: no more of these than there is room for get a place, and nobody else
	for project, next := first, second; project != "" && idle < room; project = next {
		l, err := stand(project)
		if err != nil {
			return nil, err
		}
		if lines = append(lines, l); l.Sent == 0 && len(l.Runs) > 0 {
			idle++
		}
		if project != first { // the second is known
			if next, err = nextProject(tx, node, project, now); err != nil {
				return nil, err
			}
		}
		if next == first {
			break
		}
	}
	if own != "" && !slices.ContainsFunc(lines, func(l placement.Line) bool { return l.Project == own }) {
		l, err := stand(own)
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// Weight implements Shares.
func (s *shares) Weight(id writ.ProjectID) int {
	if p := s.roster().Project(id); p != nil {
		return s.weights[p.Name]
	}
	return 0
}

// spare returns the runs that get the spare room of a node.
func (s *shares) spare(tx *journal.Tx, node writ.NodeID, load journal.Load, slots int) ([]writ.RunID, error) {
	room := placement.Spare(slots, load.Sent(), 0)
	if room <= 0 {
		return nil, nil
	}
	lines, err := s.Lines(tx, node, tx.Now, room, "")
	if err != nil {
		return nil, err
	}
	out, err := tx.SentByProject(node) // Lines omits it if one project waits alone
	for i := range lines {
		l := &lines[i]
		l.Sent = out[l.Project]
		l.Runs = l.Runs[:min(len(l.Runs), placement.Spare(slots, load.Sent(), l.Sent))]
	}
	return placement.Share(room, lines), err
}

// nextProject returns the project that comes after another one among those that wait for a node, which may be the same; "" if none waits.
func nextProject(tx *journal.Tx, node writ.NodeID, after writ.ProjectID, now time.Time) (writ.ProjectID, error) {
	next, err := tx.NextSendable(node, after, now)
	if next == "" && after != "" && err == nil {
		return tx.NextSendable(node, "", now)
	}
	return next, err
}
