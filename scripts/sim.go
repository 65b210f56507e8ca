package scripts

import (
	"context"

	"writ"
)

// Sim is where the scripts that a test is about are played. It belongs to one test: the runs of a test share what they make.
//
// An error of Run or Plan means that the script could not even be handed in because of something that the test's author must change
// (no such file, a script that does not pass its check) or because ctx ended. It ends the test.
type Sim interface {
	// Run plays a script to its end. A script that is refused, by its parameters or by what its signed header allows, is no error: the
	// state of what Run returns is StateRefused then.
	Run(ctx context.Context, r Rehearsal) (Rehearsed, error)
	// Plan returns what a script will ask for. One whose parameters do not fit is no error: the plan's failure says why.
	Plan(ctx context.Context, r Rehearsal) (Plan, error)
	// Resources returns what there is now, by kind and name.
	Resources(ctx context.Context) ([]SimResource, error)
}

// SimNodes is how many nodes the datacenter of a test has unless it says otherwise: two, so that a script fails there which works on one node
// only. MaxSimNodes is how many it may have.
const (
	SimNodes    = 2
	MaxSimNodes = 5
)

// Rehearsal is a run of a script that a test asks for.
type Rehearsal struct {
	Script     string // path of the file, from that of the test file
	Params     map[string]any
	Project    string // name; "default" if empty
	Deployment string // name; none if empty
	Nodes      int    // how many the datacenter has; SimNodes if 0. All runs of a test have the same number
	Faults     []Fault
	Results    []Substitute
}

// Target names calls of a script: those of an operation, or of an operation on one resource.
type Target struct {
	Operation string
	Name      string // of the resource, "" for any
}

// String is how a test writes the target: "machine.create web-0".
func (t Target) String() string {
	if t.Name == "" {
		return t.Operation
	}
	return t.Operation + " " + t.Name
}

// Fault lets calls fail instead of being carried out.
type Fault struct {
	Target
	Code    writ.Code
	Message string
	Times   int // how many attempts fail for each resource; 0 is all of them
}

// Substitute replaces fields of the results of calls that succeed.
type Substitute struct {
	Target
	Values map[string]any
}

// StateRefused is the state of a run that was never accepted. writ.RunState has the others.
const StateRefused = "refused"

// Rehearsed is what came of a Rehearsal.
type Rehearsed struct {
	State   string
	Failure *writ.Failure // nil if it succeeded
	Output  map[string]any
	Logs    []string
	Calls   []RehearsedCall // by seq
	// Untouched are the faults and substitutes that no call met: most likely they name something that the script does not do.
	Untouched []Target
}

// RehearsedCall is a call with what only its datacenter knows.
type RehearsedCall struct {
	writ.Call
	Args   map[string]any // a handle is {"ref": seq}
	Values map[string]any
}

// SimResource is a resource with what was asked for and what was said of it.
type SimResource struct {
	Kind   writ.ResourceKind
	Name   string
	Node   string
	Args   map[string]any
	Values map[string]any
}
