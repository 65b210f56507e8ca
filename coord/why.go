package coord

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/coord/reasons"
	"writ/ledger"
)

// whyCalls is how many open calls of a run are looked at for one that says why it waits.
const whyCalls = 8

// Why says in a sentence each why runs wait: those that their datacenters do not have yet, and those that are open there. For all others it is
// what the datacenter said of the run itself. The API and the dashboard say the same.
func (c *Coordinator) Why(ctx context.Context, runs ...ledger.Run) (map[writ.RunID]string, error) {
	why := make(map[writ.RunID]string, len(runs))
	var open []writ.RunID
	for _, r := range runs {
		why[r.ID] = r.Reason
		switch {
		case r.State == ledger.StateWaiting:
			why[r.ID] = c.whyWaiting(r)
		case isOpen(r):
			open = append(open, r.ID)
		}
	}
	calls, err := c.Ledger.OpenCalls(ctx, whyCalls, open...)
	if err != nil {
		return nil, err
	}
	ill, err := c.illNodes(ctx, calls)
	if err != nil {
		return nil, err
	}
	repeated, err := c.Ledger.Repeated(ctx, open...)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		if !isOpen(r) {
			continue
		}
		session, connected := c.links.Session(r.Datacenter)
		if !connected {
			said := cmp.Or(r.Reason, whyCallsWait(calls[r.ID], nil))
			why[r.ID] = strings.TrimSuffix(reasons.Away+", and said last: "+said, ", and said last: ")
			continue
		}
		if fault := session.Fault(); fault != "" {
			why[r.ID] = reasons.Halted + ": " + fault
			continue
		}
		why[r.ID] = cmp.Or(r.Reason, whyCallsWait(calls[r.ID], ill[r.Datacenter]))
		if call, loops := repeated[r.ID]; loops {
			why[r.ID] = strings.TrimSuffix(loopText(call)+"; "+why[r.ID], "; ")
		}
	}
	return why, nil
}

// loopText formats the reason of a run that repeats a call.
func loopText(c writ.Call) string {
	return fmt.Sprintf("it repeats %s at %s: look for a loop that does not end", strings.TrimSuffix(c.Operation+" "+c.Name, " "), c.Position)
}

// isOpen reports whether a datacenter has a run that has not ended.
func isOpen(r ledger.Run) bool {
	return r.State == ledger.State(writ.RunAccepted) || r.State == ledger.State(writ.RunRunning)
}

// illNodes says what keeps the nodes of calls from working, by datacenter and node. It has no entry for a node that works. Many calls wait for the same
// few nodes, so the ledger is asked for these at once.
func (c *Coordinator) illNodes(ctx context.Context, calls map[writ.RunID][]writ.Call) (map[writ.DatacenterID]map[writ.NodeID]string, error) {
	var asked []writ.NodeID
	for _, of := range calls {
		for _, call := range of {
			if call.Node != "" {
				asked = append(asked, call.Node)
			}
		}
	}
	slices.Sort(asked)
	asked = slices.Compact(asked)
	ill := map[writ.DatacenterID]map[writ.NodeID]string{}
	if len(asked) == 0 { // or all nodes would be meant
		return ill, nil
	}
	for n, err := range ledger.All(ctx, c.Ledger.Nodes, ledger.NodeFilter{Nodes: asked}) {
		if err != nil {
			return nil, err
		}
		if why := whyIll(n); why != "" {
			if ill[n.Datacenter] == nil {
				ill[n.Datacenter] = map[writ.NodeID]string{}
			}
			ill[n.Datacenter][n.ID] = why
		}
	}
	return ill, nil
}

func whyIll(n writ.Node) string {
	switch {
	case n.Liveness != writ.LivenessReady && n.Liveness != "":
		return "is " + string(n.Liveness)
	case n.Fault != "":
		return "takes no work: " + n.Fault
	}
	return ""
}

// whyCallsWait says why the first open call waits of which that is known: its node does not work, or it says so itself. What a node says of a call that
// it works on is no reason to wait. If none is known, it says what became of the first one.
func whyCallsWait(calls []writ.Call, ill map[writ.NodeID]string) string {
	if len(calls) == 0 {
		return ""
	}
	first := calls[max(slices.IndexFunc(calls, func(c writ.Call) bool {
		return ill[c.Node] != "" || c.Reason != "" && c.State != writ.CallRunning
	}), 0)]
	text := fmt.Sprintf("call %d (%s) is %s", first.Seq, strings.TrimSuffix(first.Operation+" "+first.Name, " "), first.State)
	if first.NodeName != "" {
		text += " on " + first.NodeName
	}
	switch why := ill[first.Node]; {
	case why != "":
		text += ", which " + why
	case first.Reason != "":
		text += ": " + reasons.Sentence(first.Reason)
	case first.State == writ.CallPlanned && first.NodeName != "" && len(first.After) == 0:
		text += ": it waits for a slot of the node, or for an earlier call on the same resource"
	}
	return text
}
