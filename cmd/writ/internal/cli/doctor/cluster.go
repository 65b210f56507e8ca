package doctor

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/coord/api"
	"writ/coord/remedy"
	"writ/sal/catalog"
)

// stuckAfter is the silence after which the doctor counts an open run as stuck, as the first page of the dashboard
// does.
const stuckAfter = 5 * time.Minute

// examineNodes reports the nodes that need attention, from the coordinator's list of nodes. It returns no finding if
// the user may read only some projects.
func examineNodes(ctx context.Context, c *client.Client) []finding {
	ctx, stop := context.WithTimeout(ctx, doctorPatience)
	defer stop()
	nodes, err := c.Nodes.List(ctx, api.ListNodesParams{})
	if err != nil {
		return nil // another finding reports the coordinator, or the user may not list nodes
	}
	names, err := cli.DatacenterNames(ctx, c)
	if err != nil {
		return nil
	}
	return findNodes(nodes, names)
}

// findNodes returns a finding for each admitted node that is lost, silent, faulty or full, and a single finding for all
// nodes of disconnected datacenters. If all nodes are healthy, it returns a single finding.
func findNodes(nodes []writ.Node, datacenters map[writ.DatacenterID]string) (found []finding) {
	admitted, unknown := 0, 0
	for _, n := range nodes {
		if n.Admission != writ.AdmissionApproved {
			continue
		}
		admitted++
		f := finding{Check: "node " + n.Name, State: ill}
		switch {
		case n.Liveness == writ.LivenessUnknown:
			unknown++
			continue
		case n.Liveness != writ.LivenessReady:
			f.Detail = cli.Unheard(n)
			if n.Fault != "" {
				f.Detail += "; its last fault: " + n.Fault
			}
		case n.Fault != "":
			f.Detail = "takes no work: " + n.Fault
		case n.Capacity.DiskGiB > 0 && n.Used.DiskGiB >= n.Capacity.DiskGiB:
			f.State = suspect
			f.Detail = fmt.Sprintf("its disk is full: %d of %d GiB are reserved", n.Used.DiskGiB, n.Capacity.DiskGiB)
		case n.AlmostFullDisk() != nil:
			f.State, f.Detail = suspect, fmt.Sprintf("a disk is almost full: %s", n.AlmostFullDisk())
		default:
			continue
		}
		next := remedy.ForNode(n.Name, string(n.Liveness), datacenters[n.Datacenter])
		if f.Fix = next.Line; next.Effect() != "" {
			f.Fix += " (" + next.Effect() + ")"
		}
		if next.First() != "" {
			f.Fix = next.First() + ". Otherwise: " + f.Fix
		}
		found = append(found, f)
	}
	if unknown > 0 {
		detail := "the state of " + cli.Count(unknown, "node") + " is unknown: the datacenter is away"
		found = append(found, finding{Check: "nodes", State: suspect, Detail: detail, Fix: "writ dc list"})
	}
	if len(found) == 0 && admitted > 0 {
		found = append(found,
			finding{Check: "nodes", State: healthy, Detail: fmt.Sprintf("%s, all ready", cli.Count(admitted, "node"))})
	}
	return found
}

// examineRuns reports open runs without recent events.
func examineRuns(ctx context.Context, c *client.Client) []finding {
	ctx, stop := context.WithTimeout(ctx, doctorPatience)
	defer stop()
	stuck, more, err := c.Runs.List(ctx, api.ListRunsParams{Stuck: api.Given(int(stuckAfter / time.Second))},
		client.PageSize)
	if err != nil || len(stuck) == 0 {
		return nil
	}
	text := cli.Count(len(stuck), "run")
	if more != "" {
		text = "more than " + text
	}
	minutes := catalog.ShortDuration(stuckAfter)
	return []finding{{
		Check: "stuck runs", State: suspect, Detail: text + " without news for " + minutes,
		Fix: "writ run list --stuck " + minutes,
	}}
}
