// Package host is the driver of module node: what the machine is, which drivers it has, and a ping that does nothing at all. It only
// looks, and makes no resources. It must not know what the node is used for.
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

// Driver answers for the machine it runs on.
type Driver struct {
	Dir     string                   // required: a directory on the disk whose room counts
	Drivers func() []writ.NodeDriver // required: what the node serves
}

// Describe says that this is the real thing.
func (d *Driver) Describe() writ.NodeDriver {
	return writ.NodeDriver{Module: "node", Name: "host", Detail: runtime.GOOS + "/" + runtime.GOARCH}
}

// Do carries out facts, drivers and ping.
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
			return sal.Outcome{}, sal.HostError("read what the machine is", err)
		}
		return sal.Outcome{Values: catalog.Values(facts)}, nil
	case "drivers":
		return sal.Outcome{Values: catalog.Values(d.drivers())}, nil
	default:
		return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the driver of the node itself cannot do %s", request.Operation.Name())
	}
}

// Observe finds nothing: there are no resources of this module.
func (d *Driver) Observe(ctx context.Context, _ writ.ResourceID) (sal.Observation, error) {
	return sal.Observation{}, ctx.Err()
}

// List finds nothing, as Observe.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) { return nil, ctx.Err() }

// Facts reads what the machine is.
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
		all.Drivers = append(all.Drivers, catalog.NodeDriver{Module: n.Module, Name: n.Name, Simulated: n.Simulated, Detail: detail})
	}
	return all
}
