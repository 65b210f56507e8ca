package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/sal/catalog"
	"writ/scripts"
)

// Candidate is a datacenter considered for a script.
type Candidate struct {
	identity.Datacenter
	Open   int    // calls that are planned, queued or running there
	Reason string // why it cannot be chosen; "" if it can
	away   bool   // it is not connected
	full   bool   // lack of capacity is the only reason
}

// Choice holds the chosen datacenter and all candidates, best first.
type Choice struct {
	Datacenter identity.Datacenter
	Candidates []Candidate
}

// Explain returns one line per candidate that explains the choice.
func (c Choice) Explain() []string {
	var lines []string
	for _, k := range c.Candidates {
		switch {
		case k.Reason != "":
			lines = append(lines, fmt.Sprintf("not %s: %s", k.Name, k.Reason))
		case k.ID == c.Datacenter.ID:
			lines = append(lines, fmt.Sprintf("%s (%s): healthy, %d open calls: chosen", k.Name, k.Region, k.Open))
		default:
			lines = append(lines, fmt.Sprintf("not %s (%s): healthy, but %d open calls", k.Name, k.Region, k.Open))
		}
	}
	return lines
}

// Need is the minimum capacity that a new resource takes on its node.
type Need struct {
	Resource writ.ResourceID // name is empty if unknown before the script runs
	Capacity writ.Capacity
}

// Needs returns the capacity needs of a plan, where they are known before it runs. A resource that the plan makes
// twice counts once, with the last arguments.
func Needs(plan scripts.Plan, project writ.ProjectID) (needs []Need) {
	for _, call := range plan.Calls {
		op, ok := catalog.Lookup(call.Operation)
		if !ok || !op.Makes || op.Needs == nil {
			continue
		}
		name, known := call.Name.(string)
		need := Need{writ.ResourceID{Project: project, Kind: op.Kind, Name: name}, op.Needs(call.Args)}
		needs = slices.DeleteFunc(needs, func(n Need) bool { return known && n.Resource == need.Resource })
		if need.Capacity != (writ.Capacity{}) {
			needs = append(needs, need)
		}
	}
	return needs
}

// newIn returns the needs of resources that the datacenter does not have yet. Existing resources already occupy their
// capacity, even if the script is submitted again. The extra capacity of an update is known only to the datacenter.
func newIn(datacenter writ.DatacenterID, needs []Need, have []writ.Resource) (amounts []writ.Capacity) {
	for _, need := range needs {
		if !slices.ContainsFunc(have,
			func(r writ.Resource) bool { return r.Datacenter == datacenter && r.ResourceID == need.Resource }) {
			amounts = append(amounts, need.Capacity)
		}
	}
	return amounts
}

// lacks describes the capacity that is missing on nodes, or returns "" if it may suffice: each need must fit on some
// node, and their sum must fit on all nodes together. Only the datacenter can decide whether colocated resources fit on
// one node.
func lacks(nodes []writ.Node, needs []writ.Capacity) string {
	var free []writ.Capacity
	var left, all writ.Capacity
	for _, n := range nodes {
		if n.Admission == writ.AdmissionApproved && n.Scheduling == writ.SchedulingOpen && n.Liveness == writ.LivenessReady {
			unused := n.Capacity.Minus(n.Used)
			free, left = append(free, unused), left.Plus(unused)
		}
	}
	for _, need := range needs {
		all = all.Plus(need)
		if !slices.ContainsFunc(free, func(unused writ.Capacity) bool { return unused.Holds(need) }) {
			return fmt.Sprintf("no node that accepts work has %s left", amountOf(need))
		}
	}
	if len(needs) > 0 && !left.Holds(all) {
		return fmt.Sprintf("its nodes do not have %s left in total", amountOf(all))
	}
	return ""
}

// amountOf formats the non-zero parts of a capacity: "2 CPUs and 512 MiB of memory".
func amountOf(c writ.Capacity) string {
	var parts []string
	if cpu := c.CPU(); cpu > 0 {
		parts = append(parts, cpu.String()+" CPUs")
	}
	for _, of := range []struct {
		n    int64
		what string
	}{{c.MemoryMiB, "MiB of memory"}, {c.DiskGiB, "GiB of disk"}} {
		if of.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of.n, of.what))
		}
	}
	return strings.Join(parts, " and ")
}

// Choose selects a datacenter with the given labels (the region of a datacenter counts as its label "region"). It
// considers datacenters that are enabled, connected, free of faults and have capacity for the needs. Among them, it
// takes the datacenter with the fewest open calls. The roster defines the datacenters. The coordinator supplies only
// their status, so a false answer can at worst lead to a worse choice.
func (c Orders) Choose(
	ctx context.Context, roster *identity.Roster, labels map[string]string, needs []Need,
) (Choice, error) {
	answer, err := api.Answer[api.DatacenterList](c.client.API.ListDatacenters(ctx))
	if err != nil {
		return Choice{}, err
	}
	queues, err := api.Answer[api.QueueList](c.client.API.ListQueues(ctx, &api.ListQueuesParams{}))
	if err != nil {
		return Choice{}, err
	}
	nodes, err := c.client.Nodes.List(ctx, api.ListNodesParams{})
	if err != nil {
		return Choice{}, err
	}
	var have []writ.Resource
	if len(needs) > 0 {
		if have, err = c.client.Resources(ctx,
			api.ListResourcesParams{Project: api.Given(string(needs[0].Resource.Project))}); err != nil {
			return Choice{}, err
		}
	}
	full := make(map[writ.DatacenterID]string)
	for _, d := range roster.Datacenters {
		its := slices.DeleteFunc(slices.Clone(nodes), func(n writ.Node) bool { return n.Datacenter != d.ID })
		full[d.ID] = lacks(its, newIn(d.ID, needs, have))
	}
	return choose(roster, labels, answer.Items, queues.Items, full)
}

// choose selects a datacenter for Choose from the answers of the coordinator. full describes the missing capacity of
// datacenters.
func choose(roster *identity.Roster, labels map[string]string, known []api.Datacenter, queues []api.DatacenterQueues,
	full map[writ.DatacenterID]string) (Choice, error) {
	health := make(map[writ.DatacenterID]api.Datacenter)
	for _, d := range known {
		health[d.ID] = d
	}
	open := make(map[writ.DatacenterID]int)
	for _, d := range queues {
		for _, q := range d.Queues {
			open[d.Datacenter] += q.Planned + q.Queued + q.Running
		}
	}
	var choice Choice
	for _, d := range roster.Datacenters {
		choice.Candidates = append(choice.Candidates, Candidate{Datacenter: d, Open: open[d.ID],
			Reason: cmp.Or(mismatch(d, labels), unable(d, health[d.ID]), full[d.ID]),
			away:   mismatch(d, labels) == "" && d.Enabled && health[d.ID].Health != api.DatacenterHealthHealthy,
			full:   mismatch(d, labels) == "" && unable(d, health[d.ID]) == ""})
	}
	slices.SortFunc(choice.Candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(min(len(a.Reason), 1), min(len(b.Reason), 1)), cmp.Compare(a.Open, b.Open),
			strings.Compare(a.Name, b.Name))
	})
	if len(choice.Candidates) == 0 {
		return choice, writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter yet").
			WithHint("a root operator adds one with `writ dc add`")
	}
	if choice.Candidates[0].Reason != "" {
		return choice, writ.Errorf(writ.CodeDatacenterAway, "no datacenter can be chosen: %s",
			strings.Join(choice.Explain(), "; ")).
			WithHint("%s", choiceHint(choice.Candidates))
	}
	choice.Datacenter = choice.Candidates[0].Datacenter
	return choice, nil
}

// choiceHint returns the hint if no datacenter can be chosen. A submission waits for a disconnected datacenter, but not
// for capacity.
func choiceHint(candidates []Candidate) string {
	var hints []string
	for _, c := range candidates {
		if c.away {
			hints = append(hints, fmt.Sprintf("with --dc %s, the script waits until this datacenter returns", c.Name))
			break
		}
	}
	for _, c := range candidates {
		if c.full {
			hints = append(hints, "add a node, or delete unused resources: `writ node list`, `writ resource list -o wide`")
			break
		}
	}
	if len(hints) == 0 {
		return "`writ roster show` shows the datacenters with their labels; choose another label, or one of them with --dc"
	}
	return strings.Join(hints, "; or ")
}

// mismatch returns why the labels exclude a datacenter, or "".
func mismatch(d identity.Datacenter, labels map[string]string) string {
	for name, want := range labels {
		have, ok := d.Labels[name]
		if name == "region" {
			have, ok = d.Region, true
		}
		if !ok || have != want {
			return fmt.Sprintf("%s is %q, not %q", name, have, want)
		}
	}
	return ""
}

// unable returns why a datacenter accepts no work now, or "".
func unable(d identity.Datacenter, known api.Datacenter) string {
	switch {
	case !d.Enabled:
		return "it is disabled in the roster"
	case known.Fault != "":
		return known.Fault
	case known.Health != api.DatacenterHealthHealthy:
		return cmp.Or(known.Reason, "it is not connected")
	}
	return ""
}
