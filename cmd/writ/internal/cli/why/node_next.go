package why

import (
	"fmt"
	"strings"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/coord/remedy"
)

// Step holds a command to type next, its effect, and the step to try before it. Each may be empty.
type Step struct{ Command, does, first string }

// NodeStep returns the next command for a node, or the zero value if none is needed. datacenter is the name of its
// datacenter.
func NodeStep(n writ.Node, datacenter string) Step {
	switch {
	case !writ.ValidName(n.Name): // the coordinator sent it, and it is not safe for a shell
		return Step{Command: "writ node list"}
	case n.Admission == writ.AdmissionPending:
		return Step{
			Command: remedy.Node(remedy.ApproveNode, n.Name, datacenter).Line + " --fingerprint SHA256:…",
			does:    "admits it, with the fingerprint that `writ runner` prints on its machine",
		}
	case n.Admission != writ.AdmissionApproved:
		return Step{}
	case n.Liveness == writ.LivenessUnknown:
		return Step{Command: "writ dc list"}
	case n.Liveness == writ.LivenessForgotten:
		return Step{
			Command: "writ token create --dc " + cli.ShellWord(datacenter),
			does:    "makes a token; the node joins again with it, from an empty data directory",
			first: "if the supervisor's directory is a copy without journal.db-wal, stop the supervisor, and copy the " +
				"whole directory again",
		}
	case n.Liveness == writ.LivenessLost:
		lost := remedy.Node(remedy.DeclareLost, n.Name, datacenter)
		return Step{lost.Line, lost.Effect(), lost.First()}
	case n.Liveness != writ.LivenessReady:
		return Step{
			Command: remedy.Node(remedy.NodeLogs, n.Name, datacenter).Line,
			does:    "prints its last warnings; start its runner, or examine its machine and network",
		}
	case n.Fault != "" && n.AlmostFullDisk() != nil:
		return Step{
			Command: "writ resource list --node " + n.Name,
			does:    fmt.Sprintf("lists the resources to delete; other files may also use the disk: %s", n.AlmostFullDisk()),
		}
	case n.Fault != "", len(n.Stuck) > 0:
		return Step{
			Command: remedy.Node(remedy.NodeLogs, n.Name, datacenter).Line,
			does:    "prints its log; `writ doctor` on its machine examines disk, clock and drivers",
		}
	case hasFullDisk(n):
		return Step{
			Command: "writ resource list --node " + n.Name, does: "lists resources to delete, or to create on another node",
		}
	case n.Scheduling != writ.SchedulingOpen:
		return Step{
			Command: remedy.Node(remedy.UncordonNode, n.Name, datacenter).Line, does: "lets the node get new work again",
		}
	}
	return Step{}
}

// hasFullDisk reports whether the disk of a node is fully reserved or almost full.
func hasFullDisk(n writ.Node) bool {
	return n.Capacity.DiskGiB > 0 && n.Used.DiskGiB >= n.Capacity.DiskGiB || n.AlmostFullDisk() != nil
}

// WriteTo writes the step below a text. A step without a command writes nothing.
func (s Step) WriteTo(b *strings.Builder) {
	if s.Command != "" {
		writeNext(b, "", s.first, s.Command, s.does)
	}
}

// NodeStates formats the states of a node for the end of a sentence: "approved, open and ready".
func NodeStates(n writ.Node) string {
	if n.Liveness == writ.LivenessUnknown {
		return fmt.Sprintf("%s and %s; its liveness is unknown: %s", n.Admission, n.Scheduling, AwayText)
	}
	if n.Liveness == writ.LivenessForgotten {
		return fmt.Sprintf("%s and %s for the coordinator, and %s", n.Admission, n.Scheduling, cli.Unheard(n))
	}
	return fmt.Sprintf("%s, %s and %s", n.Admission, n.Scheduling, n.Liveness)
}
