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
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	switch request.Operation.Verb {
	case "ping":
		return sal.Outcome{Values: map[string]any{}}, nil
	case "facts":
		own := eachNode
		own.Hostname = f.node
		return sal.Outcome{Values: catalog.Values(own)}, nil
	case "drivers":
		var all catalog.NodeDrivers
		for _, d := range f.drivers {
			all.Drivers = append(all.Drivers,
				catalog.NodeDriver{Module: d.Module, Name: d.Name, Simulated: d.Simulated, Detail: d.Detail})
		}
		return sal.Outcome{Values: catalog.Values(all)}, nil
	default:
		return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the simulated host driver does not support %s",
			request.Operation.Name())
	}
}

// Observe returns an empty observation, because the module has no resources.
func (f *facts) Observe(ctx context.Context, _ writ.ResourceID) (sal.Observation, error) {
	return sal.Observation{}, ctx.Err()
}

// List returns no resources, because the module has none.
func (f *facts) List(ctx context.Context) ([]writ.ResourceID, error) { return nil, ctx.Err() }
