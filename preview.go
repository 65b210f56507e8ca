package writ

import "encoding/json"

// Proposal is the plan of an unsigned script. A client sends it to the datacenter for a Preview; it has no effect.
type Proposal struct {
	Project    ProjectID `json:"project"`
	Deployment string    `json:"deployment,omitempty"`
	// Base is the revision of the deployment that the script would be signed for, nil for the newest.
	Base        *int           `json:"base,omitempty"`
	Destructive bool           `json:"destructive,omitempty"` // whether it has Targets
	Targets     []string       `json:"targets,omitempty"`     // as in the header, "volume/web-0" or "volume/web-*"
	Uses        []string       `json:"uses,omitempty"`        // other deployments, as in the header
	Calls       []ProposedCall `json:"calls"`                 // in script order, with seqs from 1
	Waits       []int          `json:"waits,omitempty"`       // seqs of calls whose results the script reads at its end, in order
}

// ProposedCall is a call of a proposal. An unknown value is a map with the single key "(known after)", whose value
// lists the seqs of the calls that produce it.
type ProposedCall struct {
	Operation string         `json:"operation"`
	Name      any            `json:"name,omitempty"`    // a string, or an unknown value
	Args      map[string]any `json:"args,omitempty"`    // a handle is {"ref": seq}
	Options   map[string]any `json:"options,omitempty"` // as in the script
	After     []int          `json:"after,omitempty"`   // seqs of the calls whose handles are arguments, ascending
	Waits     []int          `json:"waits,omitempty"`   // seqs of calls whose results the script reads just before
}

// Preview is the effect that a proposal would have now. Other runs may change it before the script is signed.
type Preview struct {
	// Revision is the current revision of the deployment, 0 before its first run.
	Revision int `json:"revision,omitempty"`
	// Refused is the error with which the script would be refused, nil if it would be accepted.
	Refused *Error `json:"refused,omitempty"`
	// Reason is a sentence about why the run would wait before its start.
	Reason string          `json:"reason,omitempty"`
	Calls  []PreviewedCall `json:"calls"` // one for each call of the proposal
	// Kept lists the resources of the deployment that the plan does not name. They stay.
	Kept     []KeptResource `json:"kept,omitempty"`
	KeptMore int            `json:"kept_more,omitempty"` // number of further kept resources
}

// Action is the effect of a call.
type Action string

// The actions. A call is unreached if the script reads the result of a refused call before it makes this call.
const (
	ActionCreate    Action = "create"
	ActionUpdate    Action = "update"
	ActionUnchanged Action = "unchanged"
	ActionDelete    Action = "delete"
	ActionRead      Action = "read"    // reads only
	ActionAct       Action = "act"     // acts on the resource; only the node knows whether that changes it
	ActionUnknown   Action = "unknown" // depends on an unknown value
	ActionRefused   Action = "refused" // would fail; see Error
	ActionUnreached Action = "unreached"
)

// Changes reports whether the action may change a resource.
func (a Action) Changes() bool {
	return a != ActionUnchanged && a != ActionRead && a != ActionUnreached && a != ActionRefused
}

// PreviewedCall is the effect of one call of a proposal.
type PreviewedCall struct {
	Seq    int           `json:"seq"`
	Action Action        `json:"action"`
	Fields []FieldChange `json:"fields,omitempty"` // of an update
	Error  *Error        `json:"error,omitempty"`  // the error of a refused call
	// Drift lists the differences between the resource and its requested state, as sentences, from its node's last
	// report. If a call recreates a lost resource, its action is create.
	Drift []string `json:"drift,omitempty"`
	// Node would execute the call. It is empty if the supervisor answers the call, or if the node is unknown.
	Node      NodeID `json:"node,omitempty"`
	NodeName  string `json:"node_name,omitempty"`
	Driver    string `json:"driver,omitempty"`
	Simulated bool   `json:"simulated,omitempty"`
	// Reason is a sentence: why this node, why the call would wait, or why it is unreached.
	Reason string `json:"reason,omitempty"`
	Waits  bool   `json:"waits,omitempty"` // the call would wait even if all calls before it had ended
	// Warning names an almost full disk of the node, if the call may write to it.
	Warning string `json:"warning,omitempty"`
	// Values holds the fields of the call's result as a JSON object, if the call would change nothing.
	Values json.RawMessage `json:"values,omitempty"`
	// Nodes lists why each node is unsuitable. It is empty if a node is suitable.
	Nodes []NodeVerdict `json:"nodes,omitempty"`
}

// FieldChange is a field that an update changes. Long values are omitted.
type FieldChange struct {
	Field string          `json:"field"`
	From  json.RawMessage `json:"from,omitempty"`
	To    json.RawMessage `json:"to,omitempty"`
}

// NodeVerdict is the reason why a node is unsuitable.
type NodeVerdict struct {
	Node   NodeID      `json:"node"`
	Name   string      `json:"name"`
	Code   VerdictCode `json:"code,omitempty"`
	Label  string      `json:"label,omitempty"` // the missing label of no_label, "gpu=h100"
	Reason string      `json:"reason"`          // a sentence
}

// KeptResource is a resource of a deployment that a plan does not name.
type KeptResource struct {
	Kind     ResourceKind `json:"kind"`
	Name     string       `json:"name"`
	NodeName string       `json:"node_name,omitempty"`
}
