package room

import (
	"slices"
	"time"

	"writ"
	"writ/identity"
	"writ/scripts"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/mailbox"
	"writ/supervisor/placement"
)

// Shares divides the room of nodes between projects. All fields but Weights are required.
type Shares struct {
	Backlog *fleet.Backlog
	Mailbox *mailbox.Scheduler
	Roster  func() *identity.Roster // in force
	Weights map[string]int          // by the names of projects
}

// Lines implements workflow.Shares. It returns the projects that compete for the room of a node, beginning after the
// project that was served last on that node. If `own` is not empty, its line is always included. It stops once it has
// found enough projects without sent calls to fill the room. So the cost does not depend on the number of waiting
// projects.
func (s *Shares) Lines(
	tx *journal.Tx, node writ.NodeID, now time.Time, room int, own writ.ProjectID,
) (lines []placement.Line, err error) {
	first, err := nextProject(tx, node, s.Backlog.LastServed(node), now)
	if err != nil {
		return nil, err
	}
	second, err := nextProject(tx, node, first, now)
	if err != nil {
		return nil, err
	}
	out := map[writ.ProjectID]int{} // not needed if only one project waits
	if first != second || own != "" && own != first {
		if out, err = tx.SentByProject(node); err != nil {
			return nil, err
		}
	}
	most := room
	if s.Mailbox.AnyStalled() {
		most += 2 * scripts.MaxOpenCalls // so that other runs remain after stalled runs are skipped
	}
	stand := func(project writ.ProjectID) (placement.Line, error) {
		runs, err := tx.Sendable(node, project, now, most)
		// Stalled runs are skipped: they would not use their places.
		return placement.Line{
			Project: project, Weight: s.Weight(project), Sent: out[project], Runs: slices.DeleteFunc(runs, s.Mailbox.IsStalled),
		}, err
	}
	idle := 0 // projects without sent calls: at most `room` of these projects can get a place
	for project, next := first, second; project != "" && idle < room; project = next {
		l, err := stand(project)
		if err != nil {
			return nil, err
		}
		if lines = append(lines, l); l.Sent == 0 && len(l.Runs) > 0 {
			idle++
		}
		if project != first { // the project after `first` is known
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

// Weight implements workflow.Shares.
func (s *Shares) Weight(id writ.ProjectID) int {
	if p := s.Roster().Project(id); p != nil {
		return s.Weights[p.Name]
	}
	return 0
}

// spare returns the runs that get the spare room of a node (placement.Spare).
func (s *Shares) spare(tx *journal.Tx, node writ.NodeID, load journal.Load, slots int) ([]writ.RunID, error) {
	room := placement.Spare(slots, load.Sent(), 0)
	if room <= 0 {
		return nil, nil
	}
	lines, err := s.Lines(tx, node, tx.Now, room, "")
	if err != nil {
		return nil, err
	}
	out, err := tx.SentByProject(node) // Lines omits Sent if only one project waits
	for i := range lines {
		l := &lines[i]
		l.Sent = out[l.Project]
		l.Runs = l.Runs[:min(len(l.Runs), placement.Spare(slots, load.Sent(), l.Sent))]
	}
	return placement.Share(room, lines), err
}

// nextProject returns the next project, in rotation, with calls that wait for a node. If no other project waits, it
// returns `after` itself. It returns "" if no project waits.
func nextProject(tx *journal.Tx, node writ.NodeID, after writ.ProjectID, now time.Time) (writ.ProjectID, error) {
	next, err := tx.NextSendable(node, after, now)
	if next == "" && after != "" && err == nil {
		return tx.NextSendable(node, "", now)
	}
	return next, err
}
