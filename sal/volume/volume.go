// Package volume is the driver for volumes: directories that outlive their users, each a tree with a record. A
// sal.Trees implements the trees; this package holds the rules for volumes. It does not know the content of a volume,
// except for the disk of a machine.
//
// Layout below Dir: records/ as package sal writes them; backups/PROJECT/*.tar for archives; arriving/*.tar for
// archives from other nodes. Each tree has the name of its volume, writ.ResourceID.HostName.
package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
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
	// Users are asked before a volume is deleted or restored. It may be empty.
	Users []sal.Users
	// Step is called before every single change of Dir; tests stop the driver there. It may be nil.
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

// own is the driver's part of a record.
type own struct {
	SizeGiB int64 `json:"size_gib"`
	Phase   phase `json:"phase"`
	// Arrival is the archive from another node while the volume is being made from it.
	Arrival *arrival `json:"arrival,omitempty"`
	// Shipments are the snapshots kept for other nodes.
	Shipments []shipment `json:"shipments,omitempty"`
	Archives  []archive  `json:"archives,omitempty"`
}

// phase is the state of a volume after a crash.
type phase string

const (
	making   phase = "making"   // a tree may exist, but is incomplete
	ready    phase = "ready"    // the tree is complete
	deleting phase = "deleting" // like making, but the tree must be removed
	// The tree is complete, but no resource may start to use the volume until the driver has checked for users. A user
	// first records its use and then looks up the volume, so that one of the two sees the other.
	leaving   phase = "leaving"   // deleted if the volume has no users
	restoring phase = "restoring" // restored to a snapshot if no user is running
)

// closed reports whether resources may not start to use the volume although it exists.
func (p phase) closed() bool { return p == leaving || p == restoring }

type record = sal.Record[own]

const gib = 1 << 30

// Describe names the driver after its trees.
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
	shown, err := d.show(ctx, r)
	if err != nil {
		return sal.Observation{}, err
	}
	state := string(r.Own.Phase)
	if r.Own.Phase == ready && d.contentMissing(r) {
		state = catalog.Gone
	}
	return sal.Observation{Exists: true, UID: r.UID, State: state, Values: catalog.Values(shown)}, ctx.Err()
}

// contentMissing reports whether the tree of a volume is missing.
func (d *Driver) contentMissing(r *record) bool {
	_, err := os.Lstat(d.Trees.Path(r.Resource.HostName()))
	return errors.Is(err, fs.ErrNotExist)
}

// List returns every volume that has a record, finished or not.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return d.records().Resources(ctx)
}

// Volume returns a complete volume.
func (d *Driver) Volume(_ context.Context, project writ.ProjectID, volume writ.Ref) (sal.Volume, error) {
	r, err := d.findComplete(project, volume)
	if err != nil {
		return sal.Volume{}, err
	}
	return sal.Volume{UID: r.UID, Dir: d.Trees.Path(r.Resource.HostName()), SizeGiB: r.Own.SizeGiB}, nil
}

// findComplete returns the record of the complete volume with a handle or name.
func (d *Driver) findComplete(project writ.ProjectID, volume writ.Ref) (*record, error) {
	resource := writ.ResourceID{Project: project, Kind: writ.KindVolume, Name: volume.Name}
	r, err := d.records().Get(resource)
	if err != nil {
		return nil, err
	}
	if r != nil && r.Own.Phase.closed() {
		return nil, writ.Errorf(writ.CodeResourceBusy, "%s is being deleted or restored", resource)
	}
	if r == nil || r.Own.Phase != ready {
		return nil, sal.Unknown(resource)
	}
	if volume.UID == "" {
		return r, nil
	}
	return r, r.Owned(sal.Request{Resource: resource, UID: volume.UID})
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
		return nil, nil // the caller of the operation repeats it
	case leaving, restoring:
		if err := j.open(r); err != nil {
			return nil, err
		}
	}
	if err := j.finishArchives(r); err != nil {
		return nil, err
	}
	j.removeUnnamedPart()
	j.removeArrival()
	if now := j.now(); r.Own.Shipments != nil {
		if err := j.releaseShipments(ctx, r, func(kept shipment) bool { return now.After(kept.Until) }); err != nil {
			return nil, err
		}
	}
	return d.Trees.Keep(ctx, j.name, j.bound(r.Own.SizeGiB))
}

// Orphans returns trees with the name of a volume that does not exist.
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

// show returns the handle of a volume.
func (d *Driver) show(ctx context.Context, r *record) (v catalog.Volume, err error) {
	name := r.Resource.HostName()
	v = catalog.Volume{
		Identity: catalog.Identify(r.Resource, r.UID, false), Path: d.Trees.Path(name),
		SizeGiB: r.Own.SizeGiB, DiskGiB: r.Own.diskGiB(), Backups: r.Own.archiveNames(),
	}
	v.Snapshots, err = d.snapshots(ctx, name)
	return v, err
}

func (d *Driver) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}

func (d *Driver) records() *sal.Records[own] {
	return &sal.Records[own]{Dir: filepath.Join(d.Dir, "records"), Step: d.Step}
}

func (d *Driver) step(name string) {
	if d.Step != nil {
		d.Step(name)
	}
}
