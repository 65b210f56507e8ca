package mailbox

import (
	"slices"

	"writ"
	"writ/internal/fair"
)

const (
	// maxSteps limits the concurrent steps. Steps mostly wait for a shared commit or for the evaluator, so there are more
	// of them than cores.
	maxSteps = 128
	// maxStepsBeside limits the steps of a project while another project has or awaits a step. Alone, a project may have
	// three quarters of all steps; see fair.May. Steps share processors, rounds of the evaluator and commits. In a
	// measurement, 96 concurrent steps of one project tripled the duration of another project's step, and did not make
	// the first project faster.
	maxStepsBeside = 18
	// maxUnknown limits the unknown runs per lookup.
	maxUnknown = 100
)

// lines orders the runs that wait for a step. Each project has a line. The project with the fewest concurrent steps is
// served first, because a step may wait a long time for the evaluator. The lock of boxes guards lines.
type lines struct {
	ready map[writ.ProjectID][]writ.RunID
	order []writ.ProjectID       // keys of ready; the project served last is at the end
	under map[writ.ProjectID]int // concurrent steps
	slow  map[writ.ProjectID]int // concurrent steps that wait for a rate limit of their project
}

func newLines() lines {
	return lines{
		ready: make(map[writ.ProjectID][]writ.RunID), under: make(map[writ.ProjectID]int), slow: make(map[writ.ProjectID]int),
	}
}

// Forged is the line of runs with records that another program changed. The steps of these runs report the error.
const Forged writ.ProjectID = "!"

// unknown returns the line for runs that a node has named and whose projects are not known yet. Each node has its own
// line, because a node can name any number of runs and must not delay runs named by other nodes.
func unknown(node writ.NodeID) writ.ProjectID { return writ.ProjectID("?" + node) }

// isUnknown reports whether a line holds runs with unknown projects. The line "" holds unknown runs that were not named
// by a node.
func isUnknown(line writ.ProjectID) bool { return line == "" || line[0] == '?' }

// add appends a run to a line.
func (l *lines) add(line writ.ProjectID, run writ.RunID) {
	if len(l.ready[line]) == 0 {
		l.order = append(l.order, line)
	}
	l.ready[line] = append(l.ready[line], run)
}

// next removes the run of the next step from its line and counts the step. If lookUp is set and the line is unknown, it
// removes up to maxUnknown runs for one lookup. It returns no runs if no line may have another step.
func (l *lines) next(lookUp bool) (line writ.ProjectID, runs []writ.RunID) {
	first, free := -1, l.free()
	for i, line := range l.order {
		if l.may(line, free, lookUp) && (first < 0 || l.under[line] < l.under[l.order[first]]) {
			first = i
		}
	}
	if first < 0 {
		return "", nil
	}
	line = l.order[first]
	n := 1
	if lookUp && isUnknown(line) {
		n = min(maxUnknown, len(l.ready[line]))
	}
	runs = l.ready[line][:n]
	l.order = slices.Delete(l.order, first, first+1)
	if l.ready[line] = l.ready[line][n:]; len(l.ready[line]) > 0 {
		l.order = append(l.order, line)
	} else {
		delete(l.ready, line)
	}
	l.under[line]++
	return line, runs
}

// end subtracts an ended step of a line.
func (l *lines) end(line writ.ProjectID) {
	if l.under[line]--; l.under[line] == 0 {
		delete(l.under, line)
	}
}

// may reports whether a line may have another step if free steps are left. An unknown line has one lookup at a time.
func (l *lines) may(line writ.ProjectID, free int, lookUp bool) bool {
	if l.under[line] >= maxStepsBeside && (l.slow[line] > 0 || l.others(line)) {
		return false
	}
	return fair.May(l.under[line], free) && (!lookUp || !isUnknown(line) || l.under[line] == 0)
}

// others reports whether another line has or awaits a step.
func (l *lines) others(line writ.ProjectID) bool {
	for project := range l.under {
		if project != line {
			return true
		}
	}
	return slices.ContainsFunc(l.order, func(project writ.ProjectID) bool { return project != line })
}

// free returns the number of further steps that may run concurrently.
func (l *lines) free() int { return maxSteps - l.running() }

// running returns the number of concurrent steps.
func (l *lines) running() (n int) {
	for _, steps := range l.under {
		n += steps
	}
	return n
}

// waiting returns the number of runs that wait for a step.
func (l *lines) waiting() (n int) {
	for _, runs := range l.ready {
		n += len(runs)
	}
	return n
}
