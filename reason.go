package writ

import (
	"reflect"
	"regexp"
	"time"
)

// ReasonCode says why a run or call waits, moves or ends. Programs compare codes; the sentence that String returns
// is only for people.
type ReasonCode string

// The reasons of supervisors, with the parameters that each one has.
const (
	ReasonText     ReasonCode = "text"     // Text, a sentence without a code from an earlier version
	ReasonProgress ReasonCode = "progress" // Text: the node's progress with a running call
	ReasonCall     ReasonCode = "call"     // Seq, Call: an earlier call of the run
	ReasonResource ReasonCode = "resource" // Resource, Run: the open run that uses the resource
	ReasonRun      ReasonCode = "run"      // Run, Deployment: an earlier run of the deployment
	// Hold; and Seq and Call, if this call must start together with another call, which is on hold.
	ReasonHold       ReasonCode = "hold"
	ReasonNoNode     ReasonCode = "no_node"       // Nodes, More; or Text if no node is a candidate
	ReasonNode       ReasonCode = "node"          // Node, State or Text: the call is bound to the node
	ReasonLostNode   ReasonCode = "lost_node"     // Node: on_loss is "wait"
	ReasonLostWord   ReasonCode = "lost_word"     // Node: on_loss is "replace", so an operator must sign the loss
	ReasonNodeReport ReasonCode = "node_report"   // Nodes, More: an inventory is missing
	ReasonRetry      ReasonCode = "retry"         // Until, Error
	ReasonUnused     ReasonCode = "unused"        // no parameters: no call uses the volume, image or network yet
	ReasonTakeOver   ReasonCode = "take_over"     // Resource, Node; Text: the earlier call or run that left the resource
	ReasonMoved      ReasonCode = "moved"         // Node, State
	ReasonEnding     ReasonCode = "ending"        // Error
	ReasonResumed    ReasonCode = "resumed"       // By, Text: the signer's words
	ReasonForged     ReasonCode = "record_forged" // Error
)

// The reasons that coordinators add.
const (
	ReasonAway       ReasonCode = "datacenter_away"    // Cause: the last reason that the datacenter reported
	ReasonFaulty     ReasonCode = "datacenter_faulty"  // Text
	ReasonConnect    ReasonCode = "datacenter_connect" // Datacenter: a submission waits for its connection
	ReasonRefusing   ReasonCode = "datacenter_refuses" // Datacenter, Text: the datacenter cannot accept a submission yet
	ReasonDelivering ReasonCode = "delivering"         // Datacenter
	ReasonLoop       ReasonCode = "loop"               // Call: the repeated call; Text: its position in the script; Cause
	ReasonOpenCall   ReasonCode = "open_call"          // Seq, Call, State, Node, Cause
	ReasonSlot       ReasonCode = "slot"               // no parameters: waits for a slot of the node, or an earlier call
)

// Reason is a code with its parameters. All names, and all texts, may come from an untrusted sender.
type Reason struct {
	Code       ReasonCode    `json:"code"`
	Node       string        `json:"node,omitempty"`  // name
	State      string        `json:"state,omitempty"` // of the node or, for open_call, of the call
	Run        RunID         `json:"run,omitempty"`
	Seq        int           `json:"seq,omitempty"`      // of a call
	Call       string        `json:"call,omitempty"`     // "volume.create web-0"
	Resource   string        `json:"resource,omitempty"` // "volume web-0"
	Deployment string        `json:"deployment,omitempty"`
	Datacenter string        `json:"datacenter,omitempty"` // name
	Hold       *HoldReason   `json:"hold,omitempty"`
	Until      time.Time     `json:"until,omitzero"`
	Error      *Error        `json:"error,omitempty"`
	By         string        `json:"by,omitempty"` // signer
	Nodes      []NodesReason `json:"nodes,omitempty"`
	More       int           `json:"more,omitempty"` // number of further nodes, beyond Nodes
	Text       string        `json:"text,omitempty"` // words of a person, script, guest or server
	Cause      *Reason       `json:"cause,omitempty"`
}

// NodesReason says why some nodes are unsuitable, or why their reports are missing.
type NodesReason struct {
	Names []string    `json:"names"`
	More  int         `json:"more,omitempty"` // number of further nodes, beyond Names
	Code  VerdictCode `json:"code,omitempty"`
	State string      `json:"state,omitempty"`
	Text  string      `json:"text"` // "is cordoned"
}

// HoldReason is a hold with the names of its scope. The scope is the whole datacenter if the other names are empty.
type HoldReason struct {
	Datacenter string    `json:"datacenter,omitempty"`
	Project    string    `json:"project,omitempty"`
	Deployment string    `json:"deployment,omitempty"` // within Project
	Operation  string    `json:"operation,omitempty"`  // "machine.create", or "machine" for the whole module
	By         string    `json:"by,omitempty"`         // signer; empty if the supervisor made the hold at its start
	Since      time.Time `json:"since,omitzero"`
	Text       string    `json:"text,omitempty"` // the signer's words
}

// VerdictCode says why a node is unsuitable for a call.
type VerdictCode string

// The verdicts.
const (
	VerdictOtherNode   VerdictCode = "other_node"   // the call names another node
	VerdictNotApproved VerdictCode = "not_approved" // the node is pending, rejected or removed
	VerdictNoDriver    VerdictCode = "no_driver"
	VerdictNoEngine    VerdictCode = "no_engine"
	VerdictNoLabel     VerdictCode = "no_label"
	VerdictTooSmall    VerdictCode = "too_small" // even an empty node would be too small
	VerdictNotReady    VerdictCode = "not_ready" // the node is silent or lost
	VerdictFaulty      VerdictCode = "faulty"
	VerdictClosed      VerdictCode = "closed" // the node is cordoned or draining
	VerdictFull        VerdictCode = "full"
	VerdictPortClosed  VerdictCode = "port_closed" // the operator does not open a port that the call publishes
	VerdictPortTaken   VerdictCode = "port_taken"  // another resource publishes the port on this node
	VerdictNoDevice    VerdictCode = "no_device"
)

// IsZero reports whether there is no reason.
func (r Reason) IsZero() bool { return r.Code == "" }

// Equal reports whether both reasons have the same code and parameters.
func (r Reason) Equal(other Reason) bool { return reflect.DeepEqual(r, other) }

// Command returns the command that String names in parentheses, "" if it names none.
func (r Reason) Command() string {
	switch r.Code {
	case ReasonHold:
		if r.Hold != nil {
			return r.Hold.Release()
		}
	case ReasonLostWord:
		if ValidName(r.Node) {
			return "writ node lost " + r.Node
		}
	case ReasonNodeReport:
		return "writ node list"
	}
	return ""
}

// LostNode reports whether a call waits because its node is lost. The time limit of such a call is
// suspended.
func (r Reason) LostNode() bool { return r.Code == ReasonLostNode || r.Code == ReasonLostWord }

// maxReasonDepth limits the causes in a sentence.
const maxReasonDepth = 4

var workPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}(\.[a-z][a-z0-9_]{0,31})?$`)

// ValidWork reports whether s has the form of an operation or of a module.
func ValidWork(s string) bool { return workPattern.MatchString(s) }

// Release returns the command that ends the hold. It returns "" if a name is unsafe in a shell. An attacker might have
// chosen such a name, and a person might run the command.
func (h HoldReason) Release() string {
	command := "writ release"
	for _, flag := range []struct {
		name, value string
		valid       func(string) bool
	}{
		{"--dc", h.Datacenter, ValidName}, {"--project", h.Project, ValidName}, {"--deployment", h.Deployment, ValidName},
		{"--operation", h.Operation, ValidWork},
	} {
		switch {
		case flag.value == "":
		case !flag.valid(flag.value):
			return ""
		default:
			command += " " + flag.name + " " + flag.value
		}
	}
	return command
}
