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
)

// Candidate is a datacenter that could carry out a script, and why it was or was not chosen.
type Candidate struct {
	identity.Datacenter
	Open   int    // calls that are planned, queued or running there
	Reason string // why it cannot be chosen, "" if it can
}

// Choice is the datacenter that was chosen and all that were looked at, the best first.
type Choice struct {
	Datacenter identity.Datacenter
	Candidates []Candidate
}

// Explain says in a sentence for each candidate what spoke for or against it.
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

// Choose chooses among the datacenters of a roster that have these labels ("region" is one that all have): of those that are enabled,
// connected and without a fault the one with the fewest open calls. Which datacenters there are says the roster; the coordinator is only
// asked how they are, so the worst that it can do is to make a worse choice.
func (c *Client) Choose(ctx context.Context, roster *identity.Roster, labels map[string]string) (Choice, error) {
	answer, err := api.Answer[api.DatacenterList](c.API.ListDatacenters(ctx))
	if err != nil {
		return Choice{}, err
	}
	queues, err := api.Answer[api.QueueList](c.API.ListQueues(ctx, &api.ListQueuesParams{}))
	if err != nil {
		return Choice{}, err
	}
	return choose(roster, labels, answer.Items, queues.Items)
}

func choose(roster *identity.Roster, labels map[string]string, known []api.Datacenter, queues []api.DatacenterQueues) (Choice, error) {
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
		choice.Candidates = append(choice.Candidates, Candidate{Datacenter: d, Open: open[d.ID], Reason: against(d, labels, health[d.ID])})
	}
	slices.SortFunc(choice.Candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(min(len(a.Reason), 1), min(len(b.Reason), 1)), cmp.Compare(a.Open, b.Open), strings.Compare(a.Name, b.Name))
	})
	if len(choice.Candidates) == 0 {
		return choice, writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter yet").WithHint("a root operator adds one with `writ dc add`")
	}
	if choice.Candidates[0].Reason != "" {
		return choice, writ.Errorf(writ.CodeDatacenterAway, "no datacenter can be chosen: %s", strings.Join(choice.Explain(), "; ")).
			WithHint("name one with --dc: its script waits until it returns")
	}
	choice.Datacenter = choice.Candidates[0].Datacenter
	return choice, nil
}

// against says why a datacenter cannot be chosen, "" if it can.
func against(d identity.Datacenter, labels map[string]string, known api.Datacenter) string {
	for name, want := range labels {
		have, ok := d.Labels[name]
		if name == "region" {
			have, ok = d.Region, true
		}
		if !ok || have != want {
			return fmt.Sprintf("%s is %q, not %q", name, have, want)
		}
	}
	switch {
	case !d.Enabled:
		return "it is disabled in the roster"
	case known.Health != api.DatacenterHealthHealthy:
		return cmp.Or(known.Reason, "it is not connected")
	case known.Fault != "":
		return known.Fault
	}
	return ""
}
