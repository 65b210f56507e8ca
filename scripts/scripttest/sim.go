// Package scripttest describes tests of scripts: the rehearsal of a run, its faults and results, and the verdict of a
// test. Package interpreter runs tests; a Sim evaluates the runs that they rehearse.
package scripttest

import (
	"context"

	"writ"
	"writ/scripts"
)

// Sim runs the scripts of a test. It belongs to one test: the runs of a test share their resources.
//
// An error of Run or Plan ends the test. It means that the script could not be submitted because of a mistake of the
// test's author, such as a missing file or a script that fails its check, or that ctx ended.
type Sim interface {
	// Run runs a script to its end. A rejected script is not an error, whether its parameters or its signed header
	// caused it: the result then has the state StateRefused.
	Run(ctx context.Context, r Rehearsal) (Rehearsed, error)
	// Plan returns the plan of a script. Invalid parameters are not an error: they are the plan's failure.
	Plan(ctx context.Context, r Rehearsal) (scripts.Plan, error)
	// Resources returns the current resources, by kind and name.
	Resources(ctx context.Context) ([]SimResource, error)
}

// SimNodes is the default number of nodes in the datacenter of a test: two, so that a script fails if it works on one
// node only. MaxSimNodes is the maximum.
const (
	SimNodes    = 2
	MaxSimNodes = 5
)

// Rehearsal is a run of a script in a test.
type Rehearsal struct {
	Script     string // path of the file, relative to the test file
	Params     map[string]any
	Project    string // name; "default" if empty
	Deployment string // name; may be empty
	Nodes      int    // number of nodes of the datacenter; SimNodes if 0. All runs of a test have the same number
	Faults     []Fault
	Results    []Substitute
}

// Target selects calls of a script: all calls of an operation, or only its calls on one resource.
type Target struct {
	Operation string
	Name      string // of the resource, "" for any
}

// String returns the target as a test writes it: "machine.create web-0".
func (t Target) String() string {
	if t.Name == "" {
		return t.Operation
	}
	return t.Operation + " " + t.Name
}

// Fault makes calls fail instead of running.
type Fault struct {
	Target
	Code    writ.Code
	Message string
	Times   int // failing attempts for each resource; 0 means all
}

// Substitute replaces fields in the results of successful calls.
type Substitute struct {
	Target
	Values map[string]any
}

// StateRefused is the state of a run that was never accepted. All other runs have a writ.RunState.
const StateRefused = "refused"

// Rehearsed is the result of a Rehearsal.
type Rehearsed struct {
	State   string
	Failure *writ.Failure // nil on success
	Output  map[string]any
	Logs    []string
	Calls   []RehearsedCall // by sequence number
	// Untouched lists the faults and substitutes that matched no call. Most likely they name a call that the script
	// does not make.
	Untouched []Target
}

// RehearsedCall is a call with the data that only its datacenter has.
type RehearsedCall struct {
	writ.Call
	Args   map[string]any // a handle is {"ref": seq}
	Values map[string]any
}

// SimResource is a resource with its arguments and its reported values.
type SimResource struct {
	Kind   writ.ResourceKind
	Name   string
	Node   string
	Args   map[string]any
	Values map[string]any
}
