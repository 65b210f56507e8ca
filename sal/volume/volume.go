// Package volume is the driver for volumes: directories that outlive their users. Each volume is a tree with a record.
// A sal.Trees implements the trees; this package holds the rules for volumes. It does not interpret the content of a
// volume, except for the disk of a machine.
//
// Layout below Dir: records/ as package sal writes them; backups/PROJECT/*.tar for archives; arriving/*.tar for
// archives from other nodes. Each tree has the name of its volume, writ.ResourceID.HostName.
package volume

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// Driver is the volume driver of a node.
type Driver struct {
	Dir   string    // required: an absolute path, on any disk with room for backups
	Trees sal.Trees // required; trees of other drivers stay unchanged
	// Images provides the images for volumes. It may be nil.
	Images sal.Images
	// Users list the users of volumes. They are called before a volume is deleted or restored. May be empty.
	Users []sal.Users
	// Step is called before each change to Dir. Tests use it to stop the driver at that point. May be nil.
	Step func(name string)
	// Now returns the wall-clock time. The default is time.Now.
	Now func() time.Time

	coming reservations
}

var (
	_ sal.Keeper  = (*Driver)(nil)
	_ sal.Metered = (*Driver)(nil)
	_ sal.Volumes = (*Driver)(nil)

	_ sal.Remnants = (*Driver)(nil)
)

// Describe returns the description of the driver. Its name is the kind of the trees.
func (d *Driver) Describe() writ.NodeDriver {
	kind, detail := d.Trees.About()
	return writ.NodeDriver{Module: "volume", Name: kind, Detail: detail}
}

// Observe reads the record of a volume and checks its tree.
func (d *Driver) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	shown, err := show(ctx, d.Trees, r)
	if err != nil {
		return sal.Observation{}, err
	}
	state := string(r.Own.Phase)
	if r.Own.Phase == ready && contentMissing(d.Trees, r) {
		state = catalog.Gone
	}
	return sal.Observation{Exists: true, UID: r.UID, State: state, Values: catalog.Values(shown)}, ctx.Err()
}

// List returns every volume that has a record, including volumes whose creation or deletion is unfinished.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return d.records().Resources(ctx)
}

// Volume implements sal.Volumes.
func (d *Driver) Volume(_ context.Context, project writ.ProjectID, volume writ.Ref) (sal.Volume, error) {
	r, err := findComplete(d.records(), project, volume)
	if err != nil {
		return sal.Volume{}, err
	}
	return sal.Volume{UID: r.UID, Dir: d.Trees.Path(r.Resource.HostName()), SizeGiB: r.Own.SizeGiB}, nil
}

// Keep finishes a deletion, removes expired shipments and arrivals, and compares the tree with its record.
func (d *Driver) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	j := d.job(sal.Request{Resource: resource, UID: r.UID, Progress: func(string) {}})
	switch r.Own.Phase {
	case deleting:
		return nil, j.clear(ctx, r)
	case making:
		if r.Own.Arrival != nil && j.now().After(r.Own.Arrival.Until) {
			return nil, j.clear(ctx, r)
		}
		return nil, nil // the operation is repeated later
	}
	// Files of interrupted calls are removed first: if they have filled the disk, no record can be written.
	j.draft.removeUnnamed()
	j.removeArrival()
	drift, err := d.Trees.Keep(ctx, j.name, j.bound(r.Own.SizeGiB))
	if err == nil && r.Own.Phase.closed() {
		err = j.open(r)
	}
	if err == nil {
		err = j.finishArchives(r)
	}
	if now := j.now(); err == nil {
		err = j.releaseShipments(ctx, r, func(kept shipment) bool { return now.After(kept.Until) })
	}
	return drift, err
}

// Orphans returns damaged records, and trees with the name of a volume that does not exist.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	trees, err := d.Trees.List(ctx)
	if err != nil {
		return nil, err
	}
	records, damaged, err := d.records().List() // after the trees, so that a tree created meanwhile has its record
	if err != nil {
		return nil, err
	}
	example := writ.ResourceID{Kind: writ.KindVolume}.HostName()
	all := sal.DamagedOrphans(damaged)
	for _, name := range trees {
		owned := slices.ContainsFunc(records, func(r *record) bool { return r.Resource.HostName() == name }) ||
			slices.ContainsFunc(damaged, func(r sal.Damaged) bool { return r.HostName == name })
		if !owned && len(name) == len(example) && strings.HasPrefix(name, example[:1]) {
			all = append(all,
				sal.Orphan{Kind: "tree", Name: d.Trees.Path(name), Of: name, Remedy: d.Trees.Remedy(name)})
		}
	}
	return all, nil
}

// Usage returns the size of a volume, whether full or not, plus the size of its archives.
func (d *Driver) Usage(_ context.Context, resource writ.ResourceID) (sal.Usage, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Usage{}, err
	}
	return sal.Usage{DiskGiB: r.Own.diskGiB()}, nil
}

// RemnantBytes returns the size of all archives whose volumes were deleted.
func (d *Driver) RemnantBytes(ctx context.Context) (sum int64, err error) {
	projects, err := sal.FileNames(filepath.Join(d.Dir, "backups"))
	if err != nil {
		return 0, sal.HostError("list the archives", err)
	}
	records, _, err := d.records().List()
	if err != nil {
		return 0, err
	}
	for _, project := range projects {
		unowned, err := newBackups(d, writ.ProjectID(project)).unowned(records)
		if err != nil {
			return 0, sal.HostError("list the archives", err)
		}
		for _, f := range unowned {
			sum += f.Size()
		}
	}
	return sum, ctx.Err()
}

// ArchiveBytes returns the size of all archives of a project. It includes archives of deleted volumes and unfinished
// archives.
func (d *Driver) ArchiveBytes(project writ.ProjectID) (int64, error) {
	bytes, _, err := newBackups(d, project).usage()
	return bytes, err
}

func (d *Driver) records() *sal.Records[own] {
	return &sal.Records[own]{Dir: filepath.Join(d.Dir, "records"), Step: d.Step}
}

func (d *Driver) step(name string) {
	if d.Step != nil {
		d.Step(name)
	}
}
