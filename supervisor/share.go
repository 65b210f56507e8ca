package supervisor

import (
	"slices"

	"writ"
	"writ/supervisor/journal"
)

// share gives the room of a node to the projects that wait for it, and returns the runs whose calls go there, in this order. Each place goes
// to the oldest call of the project that has the fewest out there: who asks for little does not wait for all that somebody else asked for
// before, and who is alone has the whole node.
func share(room int, lines []journal.Line, sent map[writ.ProjectID]int) (next []writ.RunID) {
	given := make([]int, len(lines))
	for len(next) < room {
		least := -1
		for i, l := range lines {
			if given[i] < len(l.Runs) && (least < 0 || sent[l.Project]+given[i] < sent[lines[least].Project]+given[least]) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		next = append(next, lines[least].Runs[given[least]])
		given[least]++
	}
	return next
}

// shareRoom returns how many of the run's calls may go to a node that has room while others wait for it, too, and the runs that go before.
func (t *turn) shareRoom(tx *journal.Tx, node writ.NodeID, room, calls int) (ours int, others []writ.RunID, err error) {
	lines, err := tx.Lines(node, t.now, room)
	if err != nil {
		return 0, nil, err
	}
	lines = lineUp(lines, t.run.Project, t.run.ID, calls)
	sent, err := sentIfShared(tx, node, lines)
	if err != nil {
		return 0, nil, err
	}
	if sent != nil {
		sent[t.run.Project] -= t.cameBack(node)
	}
	for _, run := range share(room, lines, sent) {
		if run == t.run.ID {
			ours++
		} else {
			others = append(others, run)
		}
	}
	return ours, others, nil
}

// sentIfShared is how much of each project is out at a node that more than one of them wait for; nil, and not looked for, if there is one.
func sentIfShared(tx *journal.Tx, node writ.NodeID, lines []journal.Line) (map[writ.ProjectID]int, error) {
	if len(lines) < 2 {
		return nil, nil
	}
	return tx.SentByProject(node)
}

// lineUp puts so many calls of a run into the line of its project, whatever the journal has of them: those that waited before stay where they
// are, and new ones come last.
func lineUp(lines []journal.Line, project writ.ProjectID, run writ.RunID, calls int) []journal.Line {
	i := slices.IndexFunc(lines, func(l journal.Line) bool { return l.Project == project })
	if i < 0 {
		i, lines = len(lines), append(lines, journal.Line{Project: project})
	}
	l := &lines[i]
	l.Runs = slices.DeleteFunc(l.Runs, func(id writ.RunID) bool {
		if id == run {
			calls--
		}
		return id == run && calls < 0
	})
	for range calls {
		l.Runs = append(l.Runs, run)
	}
	return lines
}
