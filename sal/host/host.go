// Package host is the driver of module node: facts about the machine, the list of drivers, and a ping without effect.
// The driver only reads; it creates no resources and does not depend on the other drivers.
package host

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// Driver reports facts about the machine that it runs on.
type Driver struct {
	Dir     string                   // required: a directory on the disk whose size is reported
	Drivers func() []writ.NodeDriver // required: the drivers of the node
}

// Describe returns the name of the driver, and the operating system and architecture of the host.
func (d *Driver) Describe() writ.NodeDriver {
	return writ.NodeDriver{Module: "node", Name: "host", Detail: runtime.GOOS + "/" + runtime.GOARCH}
}

// Do executes node.facts, node.drivers and node.ping. It returns DRIVER_MISSING for any other operation.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	switch request.Operation.Verb {
	case "ping":
		return sal.Outcome{Values: map[string]any{}}, nil
	case "facts":
		facts, err := d.Facts()
		if err != nil {
			return sal.Outcome{}, sal.HostError("read the facts about the machine", err)
		}
		return sal.Outcome{Values: catalog.Values(facts)}, nil
	case "drivers":
		return sal.Outcome{Values: catalog.Values(d.drivers())}, nil
	default:
		return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the host driver does not support %s",
			request.Operation.Name())
	}
}

// Observe returns a zero observation, because this module has no resources.
func (d *Driver) Observe(ctx context.Context, _ writ.ResourceID) (sal.Observation, error) {
	return sal.Observation{}, ctx.Err()
}

// List returns no resources.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) { return nil, ctx.Err() }

// Facts reads the facts about the machine.
func (d *Driver) Facts() (catalog.NodeFacts, error) {
	f, err := read(d.Dir)
	if err != nil {
		return f, err
	}
	f.Arch = runtime.GOARCH
	f.CPUs = int64(runtime.NumCPU())
	f.Hostname, err = os.Hostname()
	return f, err
}

func (d *Driver) drivers() catalog.NodeDrivers {
	var all catalog.NodeDrivers
	for _, n := range d.Drivers() {
		detail := n.Detail
		for _, e := range n.Engines {
			if e.Refused != "" {
				detail += fmt.Sprintf("; not used: %s (%s)", e, e.Refused)
			}
		}
		all.Drivers = append(all.Drivers,
			catalog.NodeDriver{Module: n.Module, Name: n.Name, Simulated: n.Simulated, Detail: detail})
	}
	return all
}
