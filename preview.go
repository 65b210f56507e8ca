package writ

import "encoding/json"

// Proposal is the plan of a script as its datacenter is asked about it before anybody signs: data only, and nothing comes of it.
type Proposal struct {
	Project    ProjectID `json:"project"`
	Deployment string    `json:"deployment,omitempty"`
	// Base is the revision of the deployment that the script would be signed against, nil for the newest.
	Base        *int           `json:"base,omitempty"`
	Destructive bool           `json:"destructive,omitempty"` // the script may destroy the targets, or whatever it is about if there are none
	Targets     []string       `json:"targets,omitempty"`     // as in the signed header, "volume/web-0" or "volume/web-*"
	Calls       []ProposedCall `json:"calls"`                 // in the order of the script: the first has the seq 1
}

// ProposedCall is a call of a proposal. A value that is not known yet is a map whose only key is "(known after)", with the seqs of the
// calls after which it is.
type ProposedCall struct {
	Operation string         `json:"operation"`
	Name      any            `json:"name,omitempty"`    // a string, or not known yet
	Args      map[string]any `json:"args,omitempty"`    // a handle is {"ref": seq}
	Options   map[string]any `json:"options,omitempty"` // as the script gives them
	After     []int          `json:"after,omitempty"`   // the calls whose handles are among the arguments, ascending
	Waits     []int          `json:"waits,omitempty"`   // the calls whose results the script reads just before it makes this one
}

// Preview says what a datacenter would do with a proposal as things are now. Other runs may change that until the script is signed.
type Preview struct {
	// Revision is that of the deployment as it is now, 0 before its first run.
	Revision int `json:"revision,omitempty"`
	// Refused is why the script would not be accepted, nil if it would.
	Refused *Error `json:"refused,omitempty"`
	// Reason is why its run would wait before it begins, in a sentence.
	Reason string          `json:"reason,omitempty"`
	Calls  []PreviewedCall `json:"calls"` // one for each of the proposal
	// Kept are resources of the deployment that the plan does not name. They stay.
	Kept     []KeptResource `json:"kept,omitempty"`
	KeptMore int            `json:"kept_more,omitempty"` // how many there are besides
}

// Action is what a call would do.
type Action string

// The actions.
const (
	ActionCreate    Action = "create"
	ActionUpdate    Action = "update"
	ActionUnchanged Action = "unchanged"
	ActionDelete    Action = "delete"
	ActionRead      Action = "read"    // only looks, or finds what there is
	ActionAct       Action = "act"     // does something to it; whether that changes anything only the node knows
	ActionUnknown   Action = "unknown" // decided by what is not known yet
	ActionRefused   Action = "refused" // it would fail; Error says why
	ActionUnreached Action = "unreached"
)

// Changes reports whether the action may change anything.
func (a Action) Changes() bool {
	return a != ActionUnchanged && a != ActionRead && a != ActionUnreached && a != ActionRefused
}

// PreviewedCall is what a call of a proposal would do.
type PreviewedCall struct {
	Seq    int           `json:"seq"`
	Action Action        `json:"action"`
	Fields []FieldChange `json:"fields,omitempty"` // of an update
	Error  *Error        `json:"error,omitempty"`  // what it would fail with
	// Drift says how the resource differs from what was asked for before, in sentences, as its node told last. A call that makes a resource which
	// is gone has the action create.
	Drift []string `json:"drift,omitempty"`
	// Node is where it would be carried out; it is empty if the supervisor answers the call itself, or if none can be said yet.
	Node      NodeID `json:"node,omitempty"`
	NodeName  string `json:"node_name,omitempty"`
	Driver    string `json:"driver,omitempty"`
	Simulated bool   `json:"simulated,omitempty"`
	// Reason is why this node, why it would wait, or why it is not reached, in a sentence.
	Reason string `json:"reason,omitempty"`
	Waits  bool   `json:"waits,omitempty"` // it would have to wait for more than the calls before it
	// Warning names a disk of the node that is almost full, if the call may write to it.
	Warning string `json:"warning,omitempty"`
	// Values are the fields of the call's result, an object, if it would change nothing and find things as they are.
	Values json.RawMessage `json:"values,omitempty"`
	// Nodes are all nodes with what speaks against each, if none will do.
	Nodes []NodeVerdict `json:"nodes,omitempty"`
}

// FieldChange is a field that an update changes. A value that is too long to show is left out.
type FieldChange struct {
	Field string          `json:"field"`
	From  json.RawMessage `json:"from,omitempty"`
	To    json.RawMessage `json:"to,omitempty"`
}

// NodeVerdict says why a node will not do.
type NodeVerdict struct {
	Node   NodeID `json:"node"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// KeptResource is a resource that a plan does not name.
type KeptResource struct {
	Kind     ResourceKind `json:"kind"`
	Name     string       `json:"name"`
	NodeName string       `json:"node_name,omitempty"`
}
