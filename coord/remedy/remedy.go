// Package remedy chooses the command that helps a waiting run or call, by the code and parameters of its reason. All
// functions are pure. Reasons come from other processes, so a command contains only valid names and ids. The package
// never reads the sentence of a reason.
package remedy

import (
	"slices"

	"writ"
)

// For returns the command that helps a run or call waiting for a reason. It returns the zero Command if no command
// helps. `own` is the id of the waiting run, and datacenter the name of its datacenter, which may be empty.
func For(why writ.Reason, own writ.RunID, datacenter string) Command {
	switch why.Code {
	case writ.ReasonAway, writ.ReasonFaulty, writ.ReasonConnect:
		return List(ListDatacenters)
	case writ.ReasonHold:
		return release(why.Hold)
	case writ.ReasonRun, writ.ReasonResource:
		if why.Run != own {
			return Run(ExplainRun, why.Run)
		}
	case writ.ReasonNoNode:
		return uncordon(why.Nodes, datacenter)
	case writ.ReasonNode:
		return ForNode(why.Node, why.State, datacenter)
	case writ.ReasonLostNode, writ.ReasonLostWord:
		return Node(DeclareLost, why.Node, datacenter)
	case writ.ReasonNodeReport:
		return report(why.Nodes, datacenter)
	case writ.ReasonSlot:
		return List(ListNodes)
	case writ.ReasonLoop, writ.ReasonOpenCall:
		if why.Cause != nil {
			return For(*why.Cause, own, datacenter)
		}
	}
	return Command{}
}

func release(h *writ.HoldReason) Command {
	if h == nil || h.Release() == "" {
		return Command{}
	}
	return Command{Verb: Release, Line: h.Release()}
}

// uncordon returns the command that uncordons the first closed node. If no node is closed, it returns the list of
// nodes.
func uncordon(unsuitable []writ.NodesReason, datacenter string) Command {
	i := slices.IndexFunc(unsuitable,
		func(n writ.NodesReason) bool { return n.Code == writ.VerdictClosed && len(n.Names) > 0 })
	if i < 0 {
		return List(ListNodes)
	}
	return Node(UncordonNode, unsuitable[i].Names[0], datacenter)
}

// report returns the command for the first lost node whose report is missing. A silent node may still report.
func report(missing []writ.NodesReason, datacenter string) Command {
	i := slices.IndexFunc(missing, func(n writ.NodesReason) bool {
		return n.State == string(writ.LivenessLost) && len(n.Names) > 0
	})
	if i < 0 {
		return List(ListNodes)
	}
	return Node(DeclareLost, missing[i].Names[0], datacenter)
}
