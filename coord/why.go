package coord

import (
	"context"
	"slices"
	"strings"

	"writ"
	"writ/coord/api"
	"writ/coord/delivery"
	"writ/coord/rosters"
	"writ/ledger"
	"writ/supervisor/link"
)

// explainer finds the reasons why runs wait.
type explainer struct {
	ledger   ledger.Ledger
	links    *link.Listener
	rosters  *rosters.Store
	delivery *delivery.Service
}

// runView converts a run. A waiting run gets a reason.
func (x *explainer) runView(r ledger.Run) api.Run {
	v := api.RunOf(r.Run, api.RunState(r.State))
	v.Created = r.Created
	if r.State == ledger.StateWaiting {
		setWhy(&v, x.waiting(r))
	}
	return v
}

// waiting returns the reason why a submission waits for its delivery.
func (x *explainer) waiting(r ledger.Run) writ.Reason {
	if bad := x.delivery.Unreadable(r.ID); bad != nil {
		return writ.Reason{Code: writ.ReasonForged, Error: bad}
	}
	why := writ.Reason{Code: writ.ReasonDelivering, Datacenter: x.rosters.DatacenterName(r.Datacenter)}
	if _, connected := x.links.Session(r.Datacenter); !connected {
		why.Code = writ.ReasonConnect
	} else if trouble := x.delivery.Trouble(r.Payload); trouble != nil {
		why.Code, why.Text = writ.ReasonRefusing, trouble.Message
	}
	return why
}

// whyCalls limits the open calls of a run that are searched for a reason to wait.
const whyCalls = 8

// Why returns the reason why each run waits. A run that its datacenter does not have yet waits for the delivery. An
// open run without a reason of its own waits for one of its calls. The API and the dashboard show the same reasons.
func (x *explainer) Why(ctx context.Context, runs ...ledger.Run) (map[writ.RunID]writ.Reason, error) {
	why := make(map[writ.RunID]writ.Reason, len(runs))
	var open []writ.RunID
	for _, r := range runs {
		why[r.ID] = api.ReasonOf(r.Why, r.Reason)
		switch {
		case r.State == ledger.StateWaiting:
			why[r.ID] = x.waiting(r)
		case r.State.Open():
			open = append(open, r.ID)
		}
	}
	calls, err := x.ledger.OpenCalls(ctx, whyCalls, open...)
	if err != nil {
		return nil, err
	}
	ill, err := x.illNodes(ctx, calls)
	if err != nil {
		return nil, err
	}
	repeated, err := x.ledger.Repeated(ctx, open...)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		if !r.State.Open() {
			continue
		}
		session, connected := x.links.Session(r.Datacenter)
		switch {
		case !connected:
			why[r.ID] = withCause(writ.Reason{Code: writ.ReasonAway}, whyOpen(why[r.ID], calls[r.ID], nil))
			continue
		case session.Fault() != "":
			why[r.ID] = writ.Reason{Code: writ.ReasonFaulty, Text: session.Fault()}
			continue
		}
		why[r.ID] = whyOpen(why[r.ID], calls[r.ID], ill[r.Datacenter])
		if call, loops := repeated[r.ID]; loops {
			loop := writ.Reason{Code: writ.ReasonLoop, Call: titleOf(call), Text: call.Position}
			why[r.ID] = withCause(loop, why[r.ID])
		}
	}
	return why, nil
}

// whyOpen returns the reason of an open run if it is set, and otherwise the reason of its calls.
func whyOpen(own writ.Reason, calls []writ.Call, ill map[writ.NodeID]writ.Reason) writ.Reason {
	if !own.IsZero() {
		return own
	}
	return whyCallsWait(calls, ill)
}

// withCause returns the reason with a cause. A zero cause is ignored.
func withCause(r, cause writ.Reason) writ.Reason {
	if !cause.IsZero() {
		r.Cause = &cause
	}
	return r
}

// titleOf formats the name of a call: "volume.create web-0".
func titleOf(c writ.Call) string { return strings.TrimSuffix(c.Operation+" "+c.Name, " ") }

// illNodes returns why nodes of calls do not work, by datacenter and node. It has no entry for a working node. It sends
// one query for the nodes of all calls, because many calls wait for the same nodes.
func (x *explainer) illNodes(
	ctx context.Context, calls map[writ.RunID][]writ.Call,
) (map[writ.DatacenterID]map[writ.NodeID]writ.Reason, error) {
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
	ill := map[writ.DatacenterID]map[writ.NodeID]writ.Reason{}
	if len(asked) == 0 { // an empty filter selects all nodes
		return ill, nil
	}
	for n, err := range ledger.All(ctx, x.ledger.Nodes, ledger.NodeFilter{Nodes: asked}) {
		if err != nil {
			return nil, err
		}
		if why := whyIll(n); !why.IsZero() {
			if ill[n.Datacenter] == nil {
				ill[n.Datacenter] = map[writ.NodeID]writ.Reason{}
			}
			ill[n.Datacenter][n.ID] = why
		}
	}
	return ill, nil
}

// whyIll returns why a node does not work, the zero reason if it works.
func whyIll(n writ.Node) writ.Reason {
	switch {
	case n.Liveness != writ.LivenessReady && n.Liveness != "":
		return writ.Reason{Code: writ.ReasonNode, Node: n.Name, State: string(n.Liveness)}
	case n.Fault != "":
		return writ.Reason{Code: writ.ReasonNode, Node: n.Name, Text: n.Fault}
	}
	return writ.Reason{}
}

// whyCallsWait describes the first open call with a known reason to wait: its node does not work, or the call has a
// reason. The progress of a running call does not count. If no call has a reason, it describes the first call.
func whyCallsWait(calls []writ.Call, ill map[writ.NodeID]writ.Reason) writ.Reason {
	if len(calls) == 0 {
		return writ.Reason{}
	}
	awaited := func(c writ.Call) bool { return c.Why.Code != writ.ReasonUnused } // an unused call does not delay the run
	first := calls[max(slices.IndexFunc(calls, func(c writ.Call) bool {
		return awaited(c) && (!ill[c.Node].IsZero() || c.Reason != "" && c.State != writ.CallRunning)
	}), slices.IndexFunc(calls, awaited), 0)]
	open := writ.Reason{
		Code: writ.ReasonOpenCall, Seq: first.Seq, Call: titleOf(first), State: string(first.State), Node: first.NodeName,
	}
	cause := api.ReasonOf(first.Why, first.Reason)
	if sick := ill[first.Node]; !sick.IsZero() {
		sick.Node = first.NodeName
		cause = sick
	}
	if cause.IsZero() && first.State == writ.CallPlanned && first.NodeName != "" && len(first.After) == 0 {
		cause = writ.Reason{Code: writ.ReasonSlot}
	}
	return withCause(open, cause)
}
