package live

import (
	"context"
	"sync"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// loadKey identifies the resource of a load by its UID, because several resources can have the same name over time.
type loadKey struct {
	datacenter writ.DatacenterID
	link.LoadOf
}

func keyOf(r writ.Resource) loadKey {
	return loadKey{r.Datacenter, link.LoadOf{Node: r.Node, UID: r.UID}}
}

// loadsOf asks the datacenters of resources for their load. It omits resources without an answer.
func loadsOf(ctx context.Context, v *View, resources []writ.Resource, samples bool) map[loadKey]*api.Load {
	asked := make(map[writ.DatacenterID]*link.Loads)
	for _, r := range resources {
		if r.Node == "" || r.Kind != writ.KindContainer && r.Kind != writ.KindMachine {
			continue
		}
		if asked[r.Datacenter] == nil {
			asked[r.Datacenter] = &link.Loads{Samples: samples}
		}
		of := &asked[r.Datacenter].Of
		if *of = append(*of, keyOf(r).LoadOf); len(*of) > link.MaxLoads {
			*of = (*of)[:link.MaxLoads]
		}
	}
	ctx, cancel := context.WithTimeout(ctx, nodesWithin)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	loads := make(map[loadKey]*api.Load)
	for datacenter, params := range asked {
		asking.Go(func() {
			answer, err := Ask[link.LoadList](ctx, v, datacenter, link.VerbLoads, params)
			// The error is not reported: earlier versions do not support the verb, and the list of resources already shows
			// that a datacenter is disconnected.
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, l := range answer.Loads[:min(len(answer.Loads), len(params.Of))] {
				loads[loadKey{datacenter, link.LoadOf{Node: l.Node, UID: l.UID}}] = loadView(l)
			}
		})
	}
	asking.Wait()
	return loads
}

// maxSamples limits the samples of a resource: one per five minutes, for a day.
const maxSamples = 12*24 + 1

func loadView(l link.Load) *api.Load {
	return &api.Load{
		At: l.At, Running: l.Running, MilliCPUs: max(l.MilliCPUs, 0), MemoryBytes: max(l.MemoryBytes, 0),
		Restarts: max(l.Restarts, 0), Samples: samplesView(l.Samples),
	}
}

func samplesView(samples []link.LoadSample) []api.LoadSample {
	if len(samples) == 0 {
		return nil
	}
	return api.Views(samples[:min(len(samples), maxSamples)], func(s link.LoadSample) api.LoadSample {
		return api.LoadSample{At: s.At, MilliCPUs: max(s.MilliCPUs, 0), MemoryBytes: max(s.MemoryBytes, 0)}
	})
}
