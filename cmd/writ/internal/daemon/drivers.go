package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"writ"
	"writ/internal/failpoint"
	"writ/sal"
	"writ/sal/btrfs"
	"writ/sal/directory"
	"writ/sal/host"
	"writ/sal/image"
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
	var all []sal.Driver
	switch c.Choice {
	case DriversAuto:
		all = append(all, openStorage(dir).drivers()...)
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
			Module: module, Dir: filepath.Join(dir, "simulated"), Images: filepath.Join(dir, "images"), Speed: c.Speed, Detail: detail, Step: failpoint.Step(module),
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

// BoundedVolumes says why volumes in a directory would be plain directories, or returns nil if they would be bounded.
func BoundedVolumes(dir string) error { return btrfs.Usable(dir) }

// storage is what the other drivers of a node need of its disk.
type storage struct {
	trees   sal.Trees
	images  *image.Driver
	volumes interface {
		sal.Driver
		sal.Volumes
	}
}

// openStorage chooses between btrfs and plain directories. A node keeps the kind that it has volumes of.
func openStorage(dir string) storage {
	plain, bounded := filepath.Join(dir, "volumes"), filepath.Join(dir, "btrfs")
	s := storage{}
	if hasRecords(bounded) || btrfs.Usable(dir) == nil && !hasRecords(plain) {
		pool := &btrfs.Pool{Dir: filepath.Join(dir, "pool"), Step: failpoint.Step("volume")}
		s.trees = pool
		s.images = &image.Driver{Dir: filepath.Join(dir, "image"), Trees: pool, Step: failpoint.Step("image")}
		s.volumes = &btrfs.Driver{Dir: bounded, Pool: pool, Images: s.images, Step: failpoint.Step("volume")}
		return s
	}
	s.trees = &directory.Trees{Dir: filepath.Join(dir, "pool"), Step: failpoint.Step("volume")}
	s.images = &image.Driver{Dir: filepath.Join(dir, "image"), Trees: s.trees, Step: failpoint.Step("image")}
	s.volumes = &directory.Driver{Dir: plain, Images: s.images, Step: failpoint.Step("volume")}
	return s
}

func (s storage) drivers() []sal.Driver { return []sal.Driver{s.images, s.volumes} }

// hasRecords reports whether a volume driver has made anything in its directory.
func hasRecords(dir string) bool {
	entries, err := os.ReadDir(filepath.Join(dir, "records"))
	return err == nil && len(entries) > 0
}

func describe(drivers []sal.Driver) []writ.NodeDriver {
	var all []writ.NodeDriver
	for _, d := range drivers {
		all = append(all, d.Describe())
	}
	return all
}
