package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"writ"
	"writ/internal/failpoint"
	"writ/sal"
	"writ/sal/btrfs"
	"writ/sal/cloudhypervisor"
	"writ/sal/directory"
	"writ/sal/host"
	"writ/sal/image"
	"writ/sal/simulated"
	"writ/sal/volume"
)

// Drivers says which drivers a node gets.
type Drivers string

// The choices.
const (
	DriversAuto      Drivers = "auto"      // real ones for what needs nothing but a directory, simulated ones for the rest
	DriversSimulated Drivers = "simulated" // simulated ones only: nothing on the host is touched
	// DriversHost are real ones only, also those that change the host itself: its links and rules, its containers, its machines. What the host
	// lacks the tool for, the node does not do.
	DriversHost Drivers = "host"
)

// AllDrivers lists the choices.
var AllDrivers = []Drivers{DriversAuto, DriversSimulated, DriversHost}

// Set takes a choice that somebody typed.
func (d *Drivers) Set(choice string) error {
	if !slices.Contains(AllDrivers, Drivers(choice)) {
		return fmt.Errorf("use one of %v", AllDrivers)
	}
	*d = Drivers(choice)
	return nil
}

func (d *Drivers) String() string { return string(*d) }

// Type is what the help of a command shows of the value.
func (d *Drivers) Type() string { return "string" }

// driverConfig is what drivers are made of.
type driverConfig struct {
	Choice Drivers
	Dir    string  // everything of theirs is below it
	Speed  float64 // of simulated ones: what realistic durations are multiplied with
	Host   HostConfig
	Log    *slog.Logger
}

// drivers are those of a node, with what they need besides being called.
type drivers struct {
	all []sal.Driver
	// lacking are those with which the node makes nothing new, each with what it lacks; it has only those of them that look after something.
	lacking []writ.NodeDriver
	// services keep processes of the node running; each serves until its context ends.
	services []func(ctx context.Context) error
	// close frees what they hold.
	close func() error
}

// openDrivers returns at most one driver for each module. This is the only place that names them.
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
	d := &drivers{close: func() error { return nil }}
	switch c.Choice {
	case DriversAuto:
		d.all = openStorage(dir, c).drivers()
		err = d.simulate(c, dir, "auto takes nothing that changes the host; --drivers host does")
	case DriversSimulated:
		err = d.simulate(c, dir, "nothing but simulated drivers was asked for")
	case DriversHost:
		err = d.openHost(ctx, c, dir)
	default:
		panic("no choice of drivers: " + c.Choice) // Set takes no others
	}
	if err != nil {
		return nil, err
	}
	node := &host.Driver{Dir: dir}
	d.all = append(d.all, node)
	node.Drivers = func() []writ.NodeDriver { return describe(d.all) }
	return d, nil
}

// simulate adds a simulated driver for each module that has none.
func (d *drivers) simulate(c driverConfig, dir, why string) error {
	for _, module := range simulated.Modules {
		if slices.ContainsFunc(d.all, func(d sal.Driver) bool { return d.Describe().Module == module }) {
			continue
		}
		one, err := simulated.Open(simulated.Config{
			Module: module, Dir: filepath.Join(dir, "simulated"), Images: filepath.Join(dir, "images"), Speed: c.Speed, Detail: why, Step: failpoint.Step(module),
		})
		if err != nil {
			return fmt.Errorf("open the simulated driver of %s: %w", module, err)
		}
		d.all = append(d.all, one)
	}
	return nil
}

// storage is what the other drivers of a node need of its disk.
type storage struct {
	trees   sal.Trees
	images  *image.Driver
	volumes *volume.Driver
}

// shares returns an error if projects were to have shares of a disk that nothing can bound.
func shares(c driverConfig, dir string) error {
	if c.Host.ImageGiB < 0 {
		return writ.Errorf(writ.CodeUsage, "images cannot have %d GiB of the disk", c.Host.ImageGiB)
	}
	if c.Host.ProjectGiB == 0 {
		return nil
	}
	if c.Host.ProjectGiB < 0 {
		return writ.Errorf(writ.CodeUsage, "a project cannot have %d GiB of the disk", c.Host.ProjectGiB)
	}
	_, bounded := openStorage(dir, driverConfig{}).trees.(*btrfs.Pool)
	if c.Choice != DriversSimulated && bounded {
		return nil
	}
	return writ.Errorf(writ.CodeUsage, "nothing would keep projects to %d GiB of the disk: only volumes on btrfs are bounded", c.Host.ProjectGiB).
		WithHint("put the data directory of the node on btrfs before its first volume, or leave --project-disk away; writ doctor says what is missing")
}

// openStorage chooses between btrfs and plain directories. A node keeps the kind that it has volumes of.
func openStorage(dir string, c driverConfig) storage {
	host := c.Host
	pool, records := filepath.Join(dir, "pool"), filepath.Join(dir, "volumes")
	var trees sal.Trees = &directory.Trees{Dir: pool, Step: failpoint.Step("volume")}
	if bounded := filepath.Join(dir, "btrfs"); hasRecords(bounded) || btrfs.Usable(dir) == nil && !hasRecords(records) {
		share := func(writ.ProjectID) int64 { return host.ProjectGiB << 30 }
		kept := &btrfs.Pool{Dir: pool, ProjectBytes: share, Besides: besides(dir, bounded), Step: failpoint.Step("volume")}
		if users := c.numbers(filepath.Dir(dir)); users.Used() {
			kept.Deny = users.SharedGroup
		}
		trees, records = kept, bounded
	}
	images := &image.Driver{
		Dir: filepath.Join(dir, "image"), Trees: trees, MaxBytes: host.ImageGiB << 30, Dirs: host.imageDirs(), Allow: host.imageRanges(), Log: c.Log,
		Accounts: c.numbers(filepath.Dir(dir)),
		Step:     failpoint.Step("image"),
	}
	return storage{trees, images, &volume.Driver{Dir: records, Trees: trees, Images: images, Step: failpoint.Step("volume")}}
}

// besides sums up the bytes of a project outside of the pool: archives of volumes and snapshots of machines.
func besides(dir, volumes string) func(writ.ProjectID) (int64, error) {
	archives := &volume.Driver{Dir: volumes}
	machines := &cloudhypervisor.Driver{Dir: machineDir(dir)}
	return func(project writ.ProjectID) (int64, error) {
		kept, err := archives.ArchiveBytes(project)
		if err != nil {
			return 0, err
		}
		snapshots, err := machines.SnapshotBytes(project)
		return kept + snapshots, err
	}
}

// machineDir returns the directory of the machine driver. Dir is the data directory of all drivers.
func machineDir(dir string) string { return filepath.Join(dir, "machine") }

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
