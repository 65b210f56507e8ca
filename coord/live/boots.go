package live

import (
	"context"
	"slices"
	"sync"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// maxBootPages limits the requests to one datacenter for its machines. Each answer contains one page of the list.
const maxBootPages = 40

// Boots asks all datacenters, or the datacenter `only`, for the booting machines that their boot servers report. It
// returns the total and at most the `most` newest machines of each datacenter. Datacenters of earlier versions have no
// boot information.
func (v *View) Boots(ctx context.Context, only writ.DatacenterID, most int) ([]api.DatacenterBoots, error) {
	answers, err := Each[api.DatacenterBoots](ctx, v, only, link.VerbBoots, link.Boots{Max: most})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var asking sync.WaitGroup
	for i := range answers {
		asking.Go(func() { v.moreBoots(ctx, &answers[i], most) })
	}
	asking.Wait()
	return api.Views(answers, bootsView), nil
}

// moreBoots loads the machines that did not fit into the first answer of a datacenter.
func (v *View) moreBoots(ctx context.Context, a *Reply[api.DatacenterBoots], most int) {
	first := &a.Answer
	for page := 1; page < maxBootPages && a.Err == nil && len(first.Machines) < min(first.Total, most); page++ {
		have := len(first.Machines)
		next, err := Ask[api.DatacenterBoots](ctx, v, a.ID, link.VerbBoots, link.Boots{After: have, Max: most - have})
		if err != nil || len(next.Machines) == 0 {
			a.Err = err
			break
		}
		first.Machines = append(first.Machines, next.Machines...)
	}
	first.Machines = first.Machines[:min(len(first.Machines), most)] // a datacenter may send more than requested
}

func bootsView(a Reply[api.DatacenterBoots]) api.DatacenterBoots {
	v := a.Answer
	v.Datacenter, v.Name, v.Error = a.ID, a.Name, nil
	if writ.CodeOf(a.Err) != writ.CodeVerbUnsupported {
		v.Error = writ.AsError(a.Err)
	}
	if a.Err != nil {
		v = api.DatacenterBoots{Datacenter: v.Datacenter, Name: v.Name, Error: v.Error}
	}
	steps := map[string]int{}
	for _, step := range link.BootSteps { // unknown steps are dropped, because steps become metric labels
		if n := v.Steps[step]; n > 0 {
			steps[step] = n
		}
	}
	v.Steps = steps
	// The datacenter has selected the newest machines, but may send them in any order.
	slices.SortStableFunc(v.Machines, func(a, b api.BootMachine) int { return b.Since.Compare(a.Since) })
	// Empty lists must not become null in the JSON.
	v.Servers = api.Views(v.Servers, func(s api.BootServer) api.BootServer { return s })
	v.Machines = api.Views(v.Machines, func(m api.BootMachine) api.BootMachine { return m })
	return v
}
