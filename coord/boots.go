package coord

import (
	"context"
	"slices"
	"sync"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// maxBootPages limits the requests to one datacenter for its machines. A link carries the list in pages.
const maxBootPages = 40

// ListBoots asks datacenters for the machines that boot there. The coordinator does not store the answers.
func (h handlers) ListBoots(ctx context.Context, r api.ListBootsRequestObject) (api.ListBootsResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	all, err := h.c.Boots(ctx, only, link.MaxBootMachines)
	return api.ListBoots200JSONResponse{Items: all}, err
}

// Boots asks all datacenters, or only one, for the booting machines that their boot servers report: the total, and at
// most the `most` newest machines of each datacenter. Datacenters of earlier versions have no boot information.
func (c *Coordinator) Boots(ctx context.Context, only writ.DatacenterID, most int) ([]api.DatacenterBoots, error) {
	answers, err := askEach[api.DatacenterBoots](ctx, c, only, link.VerbBoots, link.Boots{Max: most})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var asking sync.WaitGroup
	for i := range answers {
		asking.Go(func() { c.moreBoots(ctx, &answers[i], most) })
	}
	asking.Wait()
	return views(answers, bootsView), nil
}

// moreBoots loads the machines that did not fit into the first answer of a datacenter.
func (c *Coordinator) moreBoots(ctx context.Context, a *reply[api.DatacenterBoots], most int) {
	first := &a.answer
	for page := 1; page < maxBootPages && a.err == nil && len(first.Machines) < min(first.Total, most); page++ {
		have := len(first.Machines)
		next, err := ask[api.DatacenterBoots](ctx, c, a.ID, link.VerbBoots, link.Boots{After: have, Max: most - have})
		if err != nil || len(next.Machines) == 0 {
			a.err = err
			break
		}
		first.Machines = append(first.Machines, next.Machines...)
	}
	first.Machines = first.Machines[:min(len(first.Machines), most)] // a datacenter may send more than requested
}

func bootsView(a reply[api.DatacenterBoots]) api.DatacenterBoots {
	v := a.answer
	v.Datacenter, v.Name, v.Error = a.ID, a.Name, nil
	if writ.CodeOf(a.err) != writ.CodeVerbUnsupported {
		v.Error = writ.AsError(a.err)
	}
	if a.err != nil {
		v = api.DatacenterBoots{Datacenter: v.Datacenter, Name: v.Name, Error: v.Error}
	}
	steps := map[string]int{}
	for _, step := range link.BootSteps { // unknown steps are dropped, because steps become metric labels
		if n := v.Steps[step]; n > 0 {
			steps[step] = n
		}
	}
	v.Steps = steps
	// The datacenter decides which machines fit.
	slices.SortStableFunc(v.Machines, func(a, b api.BootMachine) int { return b.Since.Compare(a.Since) })
	// No null in the JSON.
	v.Servers = views(v.Servers, func(s api.BootServer) api.BootServer { return s })
	v.Machines = views(v.Machines, func(m api.BootMachine) api.BootMachine { return m })
	return v
}
