package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/coord/remedy"
)

// whyFailed explains the failure of the run by its first cause. A resume alone would fail again in the same way, so the
// hint of the failure is the step before it.
func (s *Situation) whyFailed() Reason {
	run := s.Run
	why := said(run.Failure, run.Reason, "it failed")
	resume := command("writ run resume " + string(run.ID))
	next, again := resume, false
	switch f := run.Failure; {
	case f == nil:
	case f.Seq > 0 && f.Seq <= len(s.Calls):
		why = chainText(s.Calls[f.Seq-1], s.Calls)
		cause, _ := causeOf(s.Calls[f.Seq-1], s.Calls)
		lost := s.lostNode(cause)
		switch {
		case isSplit(s.Calls[f.Seq-1], s.Calls):
			next = command("writ check " + cli.ShellWord(run.Script)) // the script has to be edited first
		case cause.Error != nil &&
			remedy.EndsTheSameWay(cause.Error.Code): // a plan fails in the same way until the cause is gone
			next, again = command(s.again().plan()), true
		case lost.Admission == writ.AdmissionRemoved && !lost.Gone:
			next = remedy.ForNode(lost.Name, string(lost.Admission), s.datacenter.Name) // its earlier calls may still run
		case lost.Gone:
			next, again = command(s.again().submit()), true // the resources of its earlier calls are gone
		case f.Handled:
			why += "; the script handled this error before, so a resume ends the same way"
			next, again = command(s.again().submit()), true
		}
	case f.Code == writ.CodeScriptLimit: // a plan meets the same limit before any call is made
		next, again = command(s.again().plan()), true
	case remedy.EndsTheSameWay(f.Code):
		next = command("writ check " + cli.ShellWord(run.Script))
	case !remedy.ResumeHelps(f, run.Deadline, s.now):
		next, again = command(s.again().submit()), true
	}
	if run.Failure != nil && run.Failure.Position != "" {
		why += strings.Join(append([]string{", at " + run.Failure.Position}, TraceLines(run.Failure)...), ", ")
	}
	if !s.now.Before(run.Deadline) {
		next, again = command(s.again().submit()), true
	}
	first := ""
	switch {
	case run.Failure == nil || run.Failure.Hint == "":
	case next == resume:
		first = run.Failure.Hint
	default:
		why += "; " + run.Failure.Hint
	}
	if again {
		why += s.again().unknown()
	}
	return Reason{Why: why, First: first, Next: next}
}

// command returns a command line without a verb of package remedy.
func command(line string) remedy.Command { return remedy.Command{Line: line} }

// lostNode returns the node whose loss made a call fail. The node is empty if the call failed otherwise or the node is
// unknown.
func (s *Situation) lostNode(c writ.Call) writ.Node {
	if !endedByLoss(c) {
		return writ.Node{}
	}
	return s.nodes[cmp.Or(c.Error.Node, c.Node)]
}

// isSplit reports whether a call failed because of the nodes of the resources that it needs. The run had created these
// resources on several nodes, or on a node without capacity for the call.
func isSplit(c writ.Call, calls []writ.Call) bool {
	nodes := make(map[writ.NodeID]bool)
	for _, seq := range c.After {
		if seq > len(calls) {
			continue
		}
		if need := calls[seq-1]; need.State == writ.CallSucceeded && need.Change == writ.ChangeCreated &&
			need.Kind != writ.KindHeroDB {
			nodes[need.Node] = true
		}
	}
	switch {
	case c.Error == nil:
		return false
	case c.Error.Code == writ.CodeResourceConflict:
		return len(nodes) > 1
	}
	return c.Error.Code == writ.CodeNoCapacity && len(nodes) > 0
}

// causeOf follows DEPENDENCY_FAILED errors to the call with another error. `way` holds the calls before it.
func causeOf(c writ.Call, calls []writ.Call) (cause writ.Call, way []writ.Call) {
	for c.Error != nil && c.Error.Code == writ.CodeDependencyFailed {
		i := slices.IndexFunc(c.After, func(seq int) bool { return seq <= len(calls) && calls[seq-1].Error != nil })
		if i < 0 {
			break
		}
		way = append(way, c)
		c = calls[c.After[i]-1]
	}
	return c, way
}

// chainText describes a failed call, the calls that it needs, and the error of the last one.
func chainText(failed writ.Call, calls []writ.Call) string {
	c, way := causeOf(failed, calls)
	text := ""
	for _, needs := range way {
		text += describeCall(needs) + " needs "
	}
	text += describeCall(c)
	if len(way) > 0 {
		text += ", which"
	}
	if c.Error == nil {
		return text + " failed"
	}
	return fmt.Sprintf("%s failed: %s: %s", text, c.Error.Code, c.Error.Message)
}
