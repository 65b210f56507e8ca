package coord

import (
	"context"
	"slices"
	"sync"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// maxBootPages is how many answers have the machines of a datacenter at most: a link carries a part of them at a time.
const maxBootPages = 40

// ListBoots asks datacenters which machines start there. The answers pass through and are kept nowhere.
func (h handlers) ListBoots(ctx context.Context, r api.ListBootsRequestObject) (api.ListBootsResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	all, err := h.c.Boots(ctx, only, link.MaxBootMachines)
	return api.ListBoots200JSONResponse{Items: all}, err
}

// Boots asks datacenters, all of them or one, what boot servers say of machines that start: how many there are, and the newest of them, at most so
// many of each datacenter. Those of earlier versions know none.
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

// moreBoots asks a datacenter for the machines that its first answer had no room for.
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
	first.Machines = first.Machines[:min(len(first.Machines), most)] // a datacenter may send more than it was asked for
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
	for _, step := range link.BootSteps { // no others: they are labels of metrics
		if n := v.Steps[step]; n > 0 {
			steps[step] = n
		}
	}
	v.Steps = steps
	slices.SortStableFunc(v.Machines, func(a, b api.BootMachine) int { return b.Since.Compare(a.Since) }) // which ones there is room for, the datacenter says
	v.Servers = views(v.Servers, func(s api.BootServer) api.BootServer { return s })                      // no null
	v.Machines = views(v.Machines, func(m api.BootMachine) api.BootMachine { return m })
	return v
}
