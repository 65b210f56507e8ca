package main

import (
	"fmt"
	"strings"

	"writ"
	"writ/coord/remedy"
)

// step is a command to type next, and its effect. Both may be "".
type step struct{ command, does string }

// nodeStep returns the next command for a node, or the zero value if none is needed. datacenter is the name of its
// datacenter.
func nodeStep(n writ.Node, datacenter string) step {
	switch {
	case !writ.ValidName(n.Name): // the coordinator sent it, and it is not safe for a shell
		return step{command: "writ node list"}
	case n.Admission == writ.AdmissionPending:
		return step{remedy.Node(remedy.ApproveNode, n.Name, datacenter).Line + " --fingerprint SHA256:…",
			"admits it, with the fingerprint that `writ runner` prints on its machine"}
	case n.Admission != writ.AdmissionApproved:
		return step{}
	case n.Liveness == writ.LivenessUnknown:
		return step{command: "writ dc list"}
	case n.Liveness == writ.LivenessLost:
		lost := remedy.Node(remedy.DeclareLost, n.Name, datacenter)
		return step{lost.Line, lost.Effect()}
	case n.Liveness != writ.LivenessReady:
		return step{remedy.Node(remedy.NodeLogs, n.Name, datacenter).Line, "prints its last warnings; start its runner, or examine its machine and network"}
	case n.Fault != "", len(n.Stuck) > 0:
		return step{remedy.Node(remedy.NodeLogs, n.Name, datacenter).Line, "prints its log; `writ doctor` on its machine examines disk, clock and drivers"}
	case hasFullDisk(n):
		return step{"writ resource list --node " + n.Name, "lists the resources to delete, or to make on another node"}
	case n.Scheduling != writ.SchedulingOpen:
		return step{remedy.Node(remedy.UncordonNode, n.Name, datacenter).Line, "gives it work again"}
	}
	return step{}
}

// hasFullDisk reports whether the disk of a node is fully reserved or almost full.
func hasFullDisk(n writ.Node) bool {
	return n.Capacity.DiskGiB > 0 && n.Used.DiskGiB >= n.Capacity.DiskGiB || n.AlmostFullDisk() != nil
}

// writeTo writes the step below a text. A step without a command writes nothing.
func (s step) writeTo(b *strings.Builder) {
	if s.command != "" {
		writeNext(b, "", s.command, s.does)
	}
}

// nodeStates formats the states of a node for the end of a sentence: "approved, open and ready".
func nodeStates(n writ.Node) string {
	if n.Liveness == writ.LivenessUnknown {
		return fmt.Sprintf("%s and %s; its liveness is unknown: %s", n.Admission, n.Scheduling, awayText)
	}
	return fmt.Sprintf("%s, %s and %s", n.Admission, n.Scheduling, n.Liveness)
}
