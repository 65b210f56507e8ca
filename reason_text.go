package writ

import (
	"fmt"
	"strings"
	"time"
)

// String returns the sentence for people, "" without a reason. It begins with a verb if its subject is the run or call.
func (r Reason) String() string { return sentence{commands: true, depth: maxReasonDepth}.of(r) }

// Brief returns the sentence without commands, for a place that shows the command beside it.
func (r Reason) Brief() string { return sentence{depth: maxReasonDepth}.of(r) }

// Sentence returns the sentence with a subject: "it is on hold" where String returns "is on hold".
func (r Reason) Sentence() string { return subjects[r.Code] + r.String() }

// subjects maps a code whose sentence begins with a verb to the words before it.
var subjects = map[ReasonCode]string{
	ReasonCall: "it ", ReasonHold: "it ", ReasonRun: "it ", ReasonNode: "it ", ReasonNodeReport: "it ", ReasonRetry: "it ",
	ReasonTakeOver: "it ", ReasonUnused: "it ", ReasonMoved: "it ", ReasonResumed: "it was ", ReasonForged: "it ", ReasonConnect: "it ",
	ReasonDelivering: "it ",
}

// sentence formats reasons.
type sentence struct {
	commands bool
	depth    int // of causes
}

func (s sentence) of(r Reason) string {
	switch r.Code {
	case ReasonText, ReasonProgress:
		return r.Text
	case ReasonCall:
		return fmt.Sprintf("waits for call %d, %s", r.Seq, r.Call)
	case ReasonResource:
		return fmt.Sprintf("another run, %s, still works on the %s", r.Run, r.Resource)
	case ReasonRun:
		return fmt.Sprintf("waits for run %s, an earlier one of the deployment %s", r.Run, r.Deployment)
	case ReasonHold:
		return s.hold(r)
	case ReasonNoNode:
		return "no node is ready: " + r.Candidates()
	case ReasonNode:
		return "waits for node " + r.Node + ", which " + r.Trouble()
	case ReasonLostNode:
		return "its node " + r.Node + " is lost; the call waits for it (on_loss)"
	case ReasonLostWord:
		return "its node " + r.Node + " is lost; another node runs the call after a person has signed that the node " +
			"never comes back" + s.command(r)
	case ReasonNodeReport:
		return s.nodeReport(r)
	case ReasonRetry:
		return "is tried again at " + clock(r.Until) + ", after " + r.failure()
	case ReasonUnused:
		return "waits for the first call that uses it, or for the end of the script"
	case ReasonTakeOver:
		return fmt.Sprintf("takes over the %s, which was left on %s by %s", r.Resource, r.Node, r.Text)
	case ReasonMoved:
		if r.State == string(LivenessLost) {
			return "goes elsewhere: " + r.Node + " was lost before it started the call"
		}
		return "goes elsewhere: " + r.Node + " is gone"
	case ReasonEnding:
		return "ending: " + r.message()
	case ReasonResumed:
		return "resumed by " + r.By + after(": ", r.Text)
	case ReasonForged:
		return "is held: " + r.message()
	}
	return s.atCoordinator(r)
}

// atCoordinator formats the reasons that coordinators add. An unknown code shows its text, or itself.
func (s sentence) atCoordinator(r Reason) string {
	switch r.Code {
	case ReasonAway:
		return "its datacenter is away" + after(", and said last: ", s.cause(r))
	case ReasonFaulty:
		return "its datacenter cannot continue: " + r.Text
	case ReasonConnect:
		return "waits for the datacenter " + r.Datacenter + " to connect"
	case ReasonRefusing:
		return "the datacenter " + r.Datacenter + " cannot take it yet: " + r.Text
	case ReasonDelivering:
		return "is on its way to the datacenter " + r.Datacenter
	case ReasonLoop:
		return "it repeats " + r.Call + " at " + r.Text + ": look for a loop that does not end" +
			after("; ", s.causeWithSubject(r))
	case ReasonOpenCall:
		text := fmt.Sprintf("call %d (%s) is %s%s", r.Seq, r.Call, r.State, after(" on ", r.Node))
		if r.Cause != nil && r.Cause.Code == ReasonNode && r.Cause.Node == r.Node {
			return text + ", which " + r.Cause.Trouble()
		}
		return text + after(": ", s.causeWithSubject(r))
	case ReasonSlot:
		return "it waits for a slot of the node, or for an earlier call on the same resource"
	}
	if r.Text == "" {
		return string(r.Code)
	}
	return r.Text
}

// cause formats the cause of a reason, "" if it has none or is nested too deeply.
func (s sentence) cause(r Reason) string {
	if r.Cause == nil || s.depth <= 1 {
		return ""
	}
	s.depth--
	return s.of(*r.Cause)
}

func (s sentence) causeWithSubject(r Reason) string {
	cause := s.cause(r)
	if cause == "" {
		return ""
	}
	return subjects[r.Cause.Code] + cause
}

func (s sentence) hold(r Reason) string {
	text := "is on hold"
	if r.Seq > 0 {
		text = fmt.Sprintf("goes with call %d, %s, which is on hold", r.Seq, r.Call)
	}
	if r.Hold == nil {
		return text
	}
	return text + s.command(r) + ": " + r.Hold.String()
}

func (s sentence) nodeReport(r Reason) string {
	var names []string
	for _, n := range r.Nodes {
		names = append(names, strings.Join(n.Names, ", ")+suffix(" (which ", n.Text, ")"))
	}
	has, more := "has", ""
	if len(names) > 1 || r.More > 0 {
		has = "have"
	}
	if r.More > 0 {
		more = fmt.Sprintf(" and %d more", r.More)
	}
	return fmt.Sprintf("waits for node reports%s: %s%s %s not reported the calls of this run yet, and the journal came from a "+
		"backup", s.command(r), strings.Join(names, ", "), more, has)
}

// command formats the command of a reason in parentheses, if commands are shown.
func (s sentence) command(r Reason) string {
	if !s.commands {
		return ""
	}
	return suffix(" (", r.Command(), ")")
}

// Trouble formats the state of the node, "is silent" or "takes no work: the disk is full".
func (r Reason) Trouble() string {
	if r.State == "" {
		return "takes no work: " + r.Text
	}
	return "is " + r.State
}

// Candidates formats why the nodes are unsuitable.
func (r Reason) Candidates() string {
	var why []string
	for _, n := range r.Nodes {
		more, text := "", n.Text
		if n.More > 0 {
			more = fmt.Sprintf(" and %d more", n.More)
		}
		if len(n.Names)+n.More > 1 {
			text = "each " + text
		}
		why = append(why, strings.Join(n.Names, ", ")+more+": "+text)
	}
	if r.More > 0 {
		why = append(why, fmt.Sprintf("and %d more nodes cannot run it for other reasons", r.More))
	}
	if len(why) == 0 {
		return r.Text
	}
	return strings.Join(why, "; ")
}

func (r Reason) failure() string {
	if r.Error == nil {
		return "a failure"
	}
	return string(r.Error.Code) + ": " + r.Error.Message
}

func (r Reason) message() string {
	if r.Error == nil {
		return r.Text
	}
	return r.Error.Message
}

// Scope formats the scope of the hold: "the deployment web of the project shop".
func (h HoldReason) Scope() string {
	switch {
	case h.Deployment != "":
		return "the deployment " + h.Deployment + " of the project " + h.Project
	case h.Project != "":
		return "the project " + h.Project
	case h.Operation != "":
		return "the operation " + h.Operation
	default:
		return "the datacenter"
	}
}

// String formats the hold: "alice has held the project shop since 12:00:05 UTC (the disks fail)".
func (h HoldReason) String() string {
	by := h.By
	if by == "" {
		by = "the supervisor itself"
	}
	return by + " has held " + h.Scope() + " since " + clock(h.Since) + suffix(" (", h.Text, ")")
}

func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) + " UTC" }

// after returns text behind a separator, "" if text is empty.
func after(separator, text string) string { return suffix(separator, text, "") }

func suffix(open, text, end string) string {
	if text == "" {
		return ""
	}
	return open + text + end
}
