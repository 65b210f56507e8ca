package identity

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/identity/header"
)

// The decisions about several runs. Their subject is the project.
const (
	DecisionCancelRuns = "cancel-runs"
	DecisionResumeRuns = "resume-runs"
)

// MaxRuns limits the runs of one statement.
const MaxRuns = 100

// SeenOfRun is the signer's view of one run in a statement about several runs.
type SeenOfRun struct {
	Run    writ.RunID
	Script string
	Ended  int64 // of a run to resume: its end in unix microseconds; otherwise 0
}

// RunList lists the runs that one statement cancels or resumes. It names each run. If it contained a filter, a
// coordinator could choose the affected runs, and changes before the statement arrives could add runs.
type RunList struct {
	Project     writ.ProjectID
	ProjectName string
	Resume      bool
	Runs        []SeenOfRun
}

// SawRun returns the entry of a run in a RunList. It uses ended, the end of the run, only for a resume.
func SawRun(id writ.RunID, script string, resume bool, ended time.Time) SeenOfRun {
	r := SeenOfRun{Run: id, Script: script}
	if resume {
		r.Ended = ended.UnixMicro()
	}
	return r
}

// Seen returns the signer's view of one run, as a statement about that run alone contains it.
func (l RunList) Seen(r SeenOfRun) Seen {
	return Seen{Name: r.Script, Project: l.Project, ProjectName: l.ProjectName, Revision: r.Ended}
}

// Statement sets Subject, Seen, Decision and Params of a statement about the runs.
func (l RunList) Statement(s *Statement) {
	s.Subject, s.Decision = "project/"+string(l.Project), DecisionCancelRuns
	if l.Resume {
		s.Decision = DecisionResumeRuns
	}
	s.Seen = Seen{Project: l.Project, ProjectName: l.ProjectName}
	lines := make([]any, 0, len(l.Runs))
	for _, r := range slices.SortedFunc(slices.Values(l.Runs),
		func(a, b SeenOfRun) int { return cmp.Compare(a.Run, b.Run) }) {
		words := []string{string(r.Run), r.Script}
		if l.Resume {
			words = append(words, strconv.FormatInt(r.Ended, 10))
		}
		lines = append(lines, strings.Join(words, " "))
	}
	s.Params = map[string]any{"runs": lines}
}

// ParseRunList parses the runs in a statement about several runs.
func ParseRunList(s *Statement) (RunList, error) {
	l := RunList{Project: s.Seen.Project, ProjectName: s.Seen.ProjectName, Resume: s.Decision == DecisionResumeRuns}
	lines, ok := stringsIn(s.Params["runs"])
	if !ok || len(s.Params) != 1 || len(lines) == 0 || len(lines) > MaxRuns {
		return RunList{}, header.Malformed("the parameter \"runs\" is a list of 1 to %d runs", MaxRuns)
	}
	if writ.ProjectID(s.ID()) != l.Project {
		return RunList{}, header.Malformed("the runs belong to another project than the subject")
	}
	for i, line := range lines {
		r, err := parseSeenOfRun(line, l.Resume)
		if err != nil {
			return RunList{}, err
		}
		if i > 0 && l.Runs[i-1].Run >= r.Run {
			return RunList{}, header.Malformed("the runs are not sorted, or %s is a duplicate", r.Run)
		}
		l.Runs = append(l.Runs, r)
	}
	return l, nil
}

// parseSeenOfRun parses "ID SCRIPT", or "ID SCRIPT ENDED" for a resume, in canonical form.
func parseSeenOfRun(line string, resume bool) (SeenOfRun, error) {
	words := strings.Split(line, " ")
	bad := header.Malformed("%q is not a run with its script in the form of the decision", header.Clip(line))
	if len(words) != 2 && !resume || len(words) != 3 && resume || !writ.RunID(words[0]).Valid() ||
		!filePattern.MatchString(words[1]) {
		return SeenOfRun{}, bad
	}
	r := SeenOfRun{Run: writ.RunID(words[0]), Script: words[1]}
	if !resume {
		return r, nil
	}
	var err error
	if r.Ended, err = strconv.ParseInt(words[2], 10, 64); err != nil || r.Ended <= 0 ||
		strconv.FormatInt(r.Ended, 10) != words[2] {
		return SeenOfRun{}, bad
	}
	return r, nil
}
