package scripts

import (
	"context"

	"writ"
)

// Source is one file of a bundle.
type Source struct {
	Name string `json:"name"` // "web.tengo"; of a module "lib/fleet@1"
	Text []byte `json:"text"`
}

// Bundle is a script with every module that it imports.
type Bundle struct {
	Main    Source   `json:"main"`
	Modules []Source `json:"modules,omitempty"`
}

// Inputs is everything besides bundle and journal that a pass may depend on.
type Inputs struct {
	Params         map[string]any    `json:"params,omitempty"` // all of them, defaults filled in
	Run            writ.RunID        `json:"run"`
	Project        string            `json:"project"` // name
	Datacenter     writ.DatacenterID `json:"datacenter"`
	DatacenterName string            `json:"datacenter_name"`
	Allow          []string          `json:"allow,omitempty"`   // operations that the signed header allows
	Secrets        []string          `json:"secrets,omitempty"` // that the signed header names, "db-password@3"; each name once
	MaxCalls       int               `json:"max_calls"`
	Logged         int               `json:"-"` // lines of its log that earlier passes gave: this one leaves them out
}

// EntryState is how far a journaled call is.
type EntryState string

// The states of an entry.
const (
	EntryOpen      EntryState = "open"
	EntrySucceeded EntryState = "succeeded"
	EntryFailed    EntryState = "failed" // for good: no attempt is left
)

// Entry is a journaled call as a pass sees it. It goes to the children of package evaluator, as NewCall and Outcome come from them, with every
// pass: as CBOR their fields stand in their order, without names.
type Entry struct {
	_      struct{}       `cbor:",toarray"`
	Seq    int            `json:"seq"`
	Hash   writ.Digest    `json:"hash"` // SHA-256 of CBOR [operation, name, spec, options]
	State  EntryState     `json:"state"`
	Values map[string]any `json:"values,omitempty"` // once it succeeded
	Error  *writ.Error    `json:"error,omitempty"`  // once it failed
}

// NewCall is a call that a pass asked for and the journal does not have yet.
type NewCall struct {
	_         struct{}         `cbor:",toarray"`
	Seq       int              `json:"seq"`
	Hash      writ.Digest      `json:"hash"`
	Operation string           `json:"operation"`
	Name      string           `json:"name,omitempty"`
	Args      map[string]any   `json:"args,omitempty"` // defaults filled in; a handle is {"ref": seq}
	Options   writ.CallOptions `json:"options"`
	After     []int            `json:"after,omitempty"` // the seqs of the handles among the arguments, ascending
	Position  string           `json:"position"`        // "web.tengo:14:2"
	Read      string           `json:"read,omitempty"`  // where the script read its last result before the call; "" if it had read none
}

// Status is how a pass ended.
type Status string

// The ends of a pass.
const (
	Waiting   Status = "waiting"   // a field was read whose call has no result yet
	Completed Status = "completed" // the script reached its end; its calls may still be open
	Failed    Status = "failed"
)

// Outcome is what a pass found. It is a function of bundle, inputs and journal alone.
type Outcome struct {
	_       struct{}       `cbor:",toarray"`
	Status  Status         `json:"status"`
	Calls   []NewCall      `json:"calls,omitempty"`
	Logs    []string       `json:"logs,omitempty"` // the lines of the run after those that Inputs counts
	Waiting []int          `json:"waiting,omitempty"`
	Handled []int          `json:"handled,omitempty"` // calls whose .err was read, ascending
	Output  map[string]any `json:"output,omitempty"`
	Failure *writ.Failure  `json:"failure,omitempty"`
}

// Evaluator carries out passes somewhere: in this process or, safely, in children of it. Its methods may be called
// concurrently. An error means that the pass did not take place (CodeEvaluatorCrashed when its process died); a script's own failure
// is an Outcome. Plan is PlanOf, in the same place.
type Evaluator interface {
	Pass(ctx context.Context, bundle Bundle, inputs Inputs, journal []Entry) (Outcome, error)
	Plan(ctx context.Context, bundle Bundle, inputs Inputs) (Plan, error)
}
