package rehearsal

import (
	"context"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// facts is the driver of module node: it tells the same of every host, so that a test ends the same everywhere.
type facts struct {
	node    string
	drivers []writ.NodeDriver
}

// eachNode is what node.facts answers besides the name; a test changes what it is about.
var eachNode = catalog.NodeFacts{
	OS: "simulated", Kernel: "simulated", Arch: "amd64", BootID: "00000000-0000-4000-8000-000000000000",
	CPUs: 8, MemoryMiB: 32 << 10, DiskGiB: 500, DiskFreeGiB: 400, KVM: true,
}

// Describe says that it only simulates.
func (f *facts) Describe() writ.NodeDriver {
	return writ.NodeDriver{Module: "node", Name: "simulated", Simulated: true, Detail: "this is a test"}
}

// Do answers facts, drivers and ping.
func (f *facts) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	values := map[string]any{}
	switch request.Operation.Verb {
	case "facts":
		own := eachNode
		own.Hostname = f.node
		values = catalog.Values(own)
	case "drivers":
		var all catalog.NodeDrivers
		for _, d := range f.drivers {
			all.Drivers = append(all.Drivers, catalog.NodeDriver{Module: d.Module, Name: d.Name, Simulated: d.Simulated, Detail: d.Detail})
		}
		values = catalog.Values(all)
	}
	return sal.Outcome{Values: values}, ctx.Err()
}

// Observe finds nothing: there are no resources of this module.
func (f *facts) Observe(ctx context.Context, _ writ.ResourceID) (sal.Observation, error) {
	return sal.Observation{}, ctx.Err()
}

// List finds nothing, as Observe.
func (f *facts) List(ctx context.Context) ([]writ.ResourceID, error) { return nil, ctx.Err() }
