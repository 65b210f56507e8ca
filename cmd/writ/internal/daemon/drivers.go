package daemon

import (
	"fmt"
	"path/filepath"
	"slices"

	"writ"
	"writ/internal/failpoint"
	"writ/sal"
	"writ/sal/directory"
	"writ/sal/host"
	"writ/sal/simulated"
)

// Drivers says which drivers a node gets.
type Drivers string

// The choices.
const (
	DriversAuto      Drivers = "auto"      // a real one wherever this version and this host have it, a simulated one elsewhere
	DriversSimulated Drivers = "simulated" // simulated ones only: nothing on the host is touched
)

// driverConfig is what drivers are made of.
type driverConfig struct {
	Choice Drivers
	Dir    string  // everything of theirs is below it
	Speed  float64 // of simulated ones: what realistic durations are multiplied with
}

// openDrivers returns one driver for each module. This is the only place that names them.
func openDrivers(c driverConfig) ([]sal.Driver, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	if err := sal.MakeDir(dir); err != nil {
		return nil, sal.HostError("make the directory of the drivers", err)
	}
	images := filepath.Join(dir, "images")
	var all []sal.Driver
	switch c.Choice {
	case DriversAuto:
		all = append(all, &directory.Driver{Dir: filepath.Join(dir, "volumes"), Images: images})
	case DriversSimulated:
	default:
		return nil, writ.Errorf(writ.CodeUsage, "%q is no choice of drivers", c.Choice).WithHint("use auto or simulated")
	}
	for _, module := range simulated.Modules {
		if slices.ContainsFunc(all, func(d sal.Driver) bool { return d.Describe().Module == module }) {
			continue
		}
		detail := "this version has no driver for the real thing"
		if c.Choice == DriversSimulated {
			detail = "nothing but simulated drivers was asked for"
		}
		d, err := simulated.Open(simulated.Config{
			Module: module, Dir: filepath.Join(dir, "simulated"), Images: images, Speed: c.Speed, Detail: detail, Step: failpoint.Step(module),
		})
		if err != nil {
			return nil, fmt.Errorf("open the simulated driver of %s: %w", module, err)
		}
		all = append(all, d)
	}
	node := &host.Driver{Dir: dir}
	all = append(all, node)
	node.Drivers = func() []writ.NodeDriver { return describe(all) }
	return all, nil
}

func describe(drivers []sal.Driver) []writ.NodeDriver {
	var all []writ.NodeDriver
	for _, d := range drivers {
		all = append(all, d.Describe())
	}
	return all
}
