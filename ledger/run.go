package ledger

import (
	"time"

	"writ"
)

// State is the state of a run as the ledger shows it: the run's own state once its datacenter has accepted it, and the
// submission's state before.
type State string

// The states of a run before its datacenter accepts it. writ.RunState has the later states, and also the state expired
// of a submission that no datacenter accepted in time.
const (
	StateWaiting = State(writ.SubmissionWaiting)
	StateRefused = State(writ.SubmissionRefused)
)

// Open reports whether a datacenter has accepted the run, and the run has not ended.
func (s State) Open() bool { return s == State(writ.RunAccepted) || s == State(writ.RunRunning) }

// States lists every state of a run, in lifecycle order.
var States = []State{
	StateWaiting, StateRefused, State(writ.RunAccepted), State(writ.RunRunning),
	State(writ.RunSucceeded), State(writ.RunFailed), State(writ.RunCancelled), State(writ.RunExpired),
}

// Run is the ledger's copy of a run, without output. Run.State and Run.Accepted are zero until the datacenter accepts
// the run.
type Run struct {
	writ.Run
	State State
	// Created is when the submission arrived, or when a run without a submission was accepted. Lists are sorted by
	// Created.
	Created time.Time
}

// RunCounts counts runs by project and state. Zero counts have no entry.
type RunCounts map[writ.ProjectID]map[State]int

// Sum adds up the counts of the selected projects.
func (c RunCounts) Sum(selects func(project writ.ProjectID) bool) map[State]int {
	sum := map[State]int{}
	for project, counts := range c {
		if !selects(project) {
			continue
		}
		for state, n := range counts {
			sum[state] += n
		}
	}
	return sum
}

// Total adds up the counts of all projects.
func (c RunCounts) Total() map[State]int {
	return c.Sum(func(writ.ProjectID) bool { return true })
}

// RunFilter selects runs. An empty field selects all.
type RunFilter struct {
	States     []State
	Datacenter writ.DatacenterID
	Projects   []writ.ProjectID
	Signer     string
	Prefix     string // of the run's id
	Script     string // file name of the script
	Deployment string // name of the deployment
	// Text is a substring of a name, a parameter or the error that ended the run, or the start of a resource name;
	// case-insensitive.
	Text      string
	Since     time.Time // runs created at this time or later
	Failure   writ.Code // runs that ended with this code
	Operation string    // runs ended by a call of this operation; NoOperation selects runs that ended without a call
	// Silent selects open runs created before this time. The run must have no event after this time, except log lines,
	// or it must repeat a call; see LoopCalls.
	Silent      time.Time
	WithoutLogs bool // omits runs that only read logs
	Oldest      bool // not a condition: sorts the list from the oldest run
}

// LoopCalls is the number of consecutive calls that count as an endless loop. All of them come from one line of a
// script and act on one resource, each in another evaluation of the script. A run that polls produces events
// continuously, so silence does not detect the loop.
const LoopCalls = 50

// MaxExamined limits the runs that the ledger reads for one page of a filter without an index: with a text, a failure or
// an operation, or with two of project, datacenter, signer, script and deployment. Such a page may be empty although its
// cursor leads to more runs. It also limits the failed runs that are grouped by Failures. With a text, a failure or an
// operation, it limits the runs that are counted. With a script, a deployment, a prefix or a time, it limits the ended
// runs that are counted.
const MaxExamined = 5000

// MaxText limits the length of RunFilter.Text, in characters.
const MaxText = 200

// NoOperation selects runs that failed without a call.
const NoOperation = "-"

// Failures is a group of runs that ended with the same code in the same operation. Runs that ended before the ledger
// stored these fields are not counted.
type Failures struct {
	Code      writ.Code
	Operation string // of the call that ended the run, "" if none
	Runs      int
	Newest    time.Time // creation time of the newest run
}
