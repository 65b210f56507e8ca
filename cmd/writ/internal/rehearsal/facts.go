package rehearsal

import (
	"context"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// facts is the driver of module node. It returns the same facts on every host, so that tests are reproducible.
type facts struct {
	node    string
	drivers []writ.NodeDriver
}

// eachNode is the result of node.facts except for the name. Tests can replace fields of it.
var eachNode = catalog.NodeFacts{
	OS: "simulated", Kernel: "simulated", Arch: "amd64", BootID: "00000000-0000-4000-8000-000000000000",
	CPUs: 8, MemoryMiB: 32 << 10, DiskGiB: 500, DiskFreeGiB: 400, KVM: true,
}

// Describe marks the driver as simulated.
func (f *facts) Describe() writ.NodeDriver {
	return writ.NodeDriver{Module: "node", Name: "simulated", Simulated: true, Detail: "this is a test"}
}

// Do executes facts, drivers and ping.
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

// Observe returns an empty observation, because the module has no resources.
func (f *facts) Observe(ctx context.Context, _ writ.ResourceID) (sal.Observation, error) {
	return sal.Observation{}, ctx.Err()
}

// List returns no resources, because the module has none.
func (f *facts) List(ctx context.Context) ([]writ.ResourceID, error) { return nil, ctx.Err() }
