package runnerd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"writ/runner/hardware"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/opening"
	"writ/sal"
	"writ/sal/btrfs"
	"writ/sal/cloudhypervisor"
	"writ/sal/containerd/device"
	"writ/sal/directory"
	"writ/sal/host"
	"writ/sal/image"
	"writ/sal/simulated"
	"writ/sal/volume"
)

// Drivers is a choice of drivers for a node.
type Drivers string

// The choices.
const (
	DriversAuto      Drivers = "auto"      // real drivers that need only a directory, simulated ones for the rest
	DriversSimulated Drivers = "simulated" // only simulated drivers: the host does not change
	// DriversHost selects real drivers only. They change links, rules, containers and machines of the host. Modules
	// whose tools the host lacks are missing on the node.
	DriversHost Drivers = "host"
)

// AllDrivers lists the choices.
var AllDrivers = []Drivers{DriversAuto, DriversSimulated, DriversHost}

// Set parses a choice.
func (d *Drivers) Set(choice string) error {
	if !slices.Contains(AllDrivers, Drivers(choice)) {
		return fmt.Errorf("use one of %v", AllDrivers)
	}
	*d = Drivers(choice)
	return nil
}

func (d *Drivers) String() string { return string(*d) }

// Type returns the name of the value's type in help texts.
func (d *Drivers) Type() string { return "string" }

// driverConfig holds the settings of drivers.
type driverConfig struct {
	Choice  Drivers
	Dir     string  // parent directory of all drivers' data
	Speed   float64 // of simulated drivers: factor of realistic durations
	Host    HostConfig
	Log     *slog.Logger
	open    opening.List // the ports that Host.Publish opens
	devices device.List  // Host.Devices
}

// drivers holds the drivers of a node and their background work.
type drivers struct {
	all []sal.Driver
	// lacking lists the modules that cannot create resources, each with the reason. Drivers with existing resources are
	// also in `all`.
	lacking []writ.NodeDriver
	// services are background tasks of drivers. Each runs until its context ends.
	services []func(ctx context.Context) error
	// close releases the resources of the drivers.
	close func() error
}

// openDrivers returns at most one driver for each module. Only this function names the drivers.
func openDrivers(ctx context.Context, c driverConfig) (*drivers, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	if err := sal.MakeDir(dir); err != nil {
		return nil, sal.HostError("make the directory of the drivers", err)
	}
	if err := shares(c, dir); err != nil {
		return nil, err
	}
	if err := c.Host.checkImages(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	if c.open, err = c.Host.openings(); err != nil {
		return nil, err
	}
	if c.devices, err = c.Host.devices(); err != nil {
		return nil, err
	}
	d := &drivers{close: func() error { return nil }}
	switch c.Choice {
	case DriversAuto:
		storage := openStorage(dir, c)
		d.all = storage.drivers()
		err = d.simulate(c, dir, storage.images, "auto excludes drivers that change the host; --drivers host includes them")
	case DriversSimulated:
		err = d.simulate(c, dir, nil, "only simulated drivers were requested")
	case DriversHost:
		err = d.openHost(ctx, c, dir)
	default:
		panic("no choice of drivers: " + c.Choice) // Set accepts no other choice
	}
	if err != nil {
		return nil, err
	}
	node := &host.Driver{Dir: dir}
	d.all = append(d.all, node)
	node.Drivers = func() []writ.NodeDriver { return describe(d.all) }
	return d, nil
}

// simulate adds a simulated driver for each missing module. fetched provides the images; nil if they are simulated too.
func (d *drivers) simulate(c driverConfig, dir string, fetched sal.Images, why string) error {
	for _, module := range simulated.Modules {
		if slices.ContainsFunc(d.all, func(d sal.Driver) bool { return d.Describe().Module == module }) {
			continue
		}
		one, err := simulated.Open(simulated.Config{
			Module: module, Dir: filepath.Join(dir, "simulated"), Images: filepath.Join(dir, "images"), Speed: c.Speed,
			Open: c.open, Devices: c.devices.Names(), Fetched: fetched, Detail: why, Step: failpoint.Step(module),
		})
		if err != nil {
			return fmt.Errorf("open the simulated driver of %s: %w", module, err)
		}
		d.all = append(d.all, one)
	}
	return nil
}

// storage holds the drivers of the node's disk, which other drivers use.
type storage struct {
	trees   sal.Trees
	images  *image.Driver
	volumes *volume.Driver
}

// shares rejects disk shares that cannot be enforced.
func shares(c driverConfig, dir string) error {
	if c.Host.ImageGiB < 0 {
		return writ.Errorf(writ.CodeUsage, "the limit of images cannot be %d GiB of the disk", c.Host.ImageGiB)
	}
	if c.Host.ProjectGiB == 0 {
		return nil
	}
	if c.Host.ProjectGiB < 0 {
		return writ.Errorf(writ.CodeUsage, "the limit of a project cannot be %d GiB of the disk", c.Host.ProjectGiB)
	}
	_, bounded := openStorage(dir, driverConfig{}).trees.(*btrfs.Pool)
	if c.Choice != DriversSimulated && bounded {
		return nil
	}
	return writ.Errorf(writ.CodeUsage,
		"projects cannot be limited to %d GiB of the disk: only volumes on btrfs have limits", c.Host.ProjectGiB).
		WithHint("put the data directory of the node on btrfs before its first volume, or omit --project-disk; see `writ doctor`")
}

// openStorage chooses between btrfs and plain directories. A node that has volumes keeps their kind of storage.
func openStorage(dir string, c driverConfig) storage {
	host := c.Host
	pool, records := filepath.Join(dir, "pool"), filepath.Join(dir, "volumes")
	var trees sal.Trees = &directory.Trees{Dir: pool, Step: failpoint.Step("volume")}
	if bounded := filepath.Join(dir, "btrfs"); hasRecords(bounded) || btrfs.Usable(dir) == nil && !hasRecords(records) {
		share := func(writ.ProjectID) int64 { return host.ProjectGiB << 30 }
		config := btrfs.Config{
			Dir: pool, ProjectBytes: share, Besides: besides(dir, bounded), Step: failpoint.Step("volume"),
		}
		if users := c.numbers(filepath.Dir(dir)); users.Used() {
			config.Deny = users.SharedGroup
		}
		trees, records = btrfs.New(config), bounded
	}
	images := &image.Driver{
		Dir: filepath.Join(dir, "image"), Trees: trees, MaxBytes: host.ImageGiB << 30, Dirs: host.imageDirs(),
		Allow: host.imageRanges(), Log: c.Log,
		Accounts: c.numbers(filepath.Dir(dir)),
		Step:     failpoint.Step("image"),
	}
	return storage{
		trees, images, &volume.Driver{Dir: records, Trees: trees, Images: images, Step: failpoint.Step("volume")},
	}
}

// besides returns a function that counts the bytes that a project has outside the pool: archives of volumes and
// snapshots of machines.
func besides(dir, volumes string) func(writ.ProjectID) (int64, error) {
	archives := &volume.Driver{Dir: volumes}
	machines := &cloudhypervisor.Inventory{Dir: machineDir(dir)}
	return func(project writ.ProjectID) (int64, error) {
		kept, err := archives.ArchiveBytes(project)
		if err != nil {
			return 0, err
		}
		snapshots, err := machines.SnapshotBytes(project)
		return kept + snapshots, err
	}
}

// machineDir returns the directory of the machine driver. dir is the data directory of all drivers.
func machineDir(dir string) string { return filepath.Join(dir, "machine") }

func (s storage) drivers() []sal.Driver { return []sal.Driver{s.images, s.volumes} }

// hasRecords reports whether a driver has records in its directory.
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

// disksBelow returns a function that measures the disk of a node's data directory, and each disk that is mounted at a
// directory of a driver.
func disksBelow(data string) func() []writ.Disk {
	return func() []writ.Disk {
		dirs := []string{data}
		drivers, err := os.ReadDir(hostDir(data))
		if err != nil {
			return hardware.Disks(dirs...)
		}
		for _, d := range drivers {
			dirs = append(dirs, filepath.Join(hostDir(data), d.Name()))
		}
		return hardware.Disks(dirs...)
	}
}
