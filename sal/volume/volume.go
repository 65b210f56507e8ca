// Package volume is the driver of volumes: directories that outlive whoever uses them, each a tree with a record. What a tree is, another
// package knows; every rule about volumes stands here. It must not know what is in a volume, but for the disk of a machine.
//
// On disk, below Dir: records/ as package sal writes them; backups/PROJECT/*.tar the archives; arriving/*.tar those that come from other
// nodes. The trees have the names of their volumes,
// writ.ResourceID.HostName.
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
	Dir   string    // required: an absolute path, on any disk that has room for backups
	Trees sal.Trees // required; those of others are left alone
	// Images are those that volumes can be made of; without it there are none.
	Images sal.Images
	// Users are asked before a volume is deleted or put back; there may be none.
	Users []sal.Users
	// Step is called before every single change of Dir; tests stop the driver there. It may be nil.
	Step func(name string)
	// Now is the wall clock, time.Now if nil.
	Now func() time.Time

	coming reservations
}

var (
	_ sal.Keeper  = (*Driver)(nil)
	_ sal.Metered = (*Driver)(nil)
	_ sal.Volumes = (*Driver)(nil)

	_ sal.Remnants = (*Driver)(nil)
)

// own is what a record keeps besides the spec.
type own struct {
	SizeGiB int64 `json:"size_gib"`
	Phase   phase `json:"phase"`
	// Arrival is what comes from another node while the volume is being made of it.
	Arrival *arrival `json:"arrival,omitempty"`
	// Shipments are what is kept for other nodes.
	Shipments []shipment `json:"shipments,omitempty"`
	Archives  []archive  `json:"archives,omitempty"`
}

// phase tells what a crash may have interrupted.
type phase string

const (
	making   phase = "making"   // there may be a tree of the name, and it does not count
	ready    phase = "ready"    // the tree is whole
	deleting phase = "deleting" // as making, and it must go
	// The tree is whole, and nobody may take the volume until it is known whether somebody has it: whoever takes one writes that down first and
	// then looks for the volume, so that one of the two sees the other.
	leaving   phase = "leaving"   // if nobody has it, it is deleted
	restoring phase = "restoring" // if nobody that runs has it, it is put back to a snapshot
)

// closed reports whether nobody may take a volume although it is there.
func (p phase) closed() bool { return p == leaving || p == restoring }

type record = sal.Record[own]

const gib = 1 << 30

// Describe names the driver by its trees.
func (d *Driver) Describe() writ.NodeDriver {
	kind, detail := d.Trees.About()
	return writ.NodeDriver{Module: "volume", Name: kind, Detail: detail}
}

// Observe looks at a volume.
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
	if r.Own.Phase == ready && d.isGone(r) {
		state = catalog.Gone
	}
	return sal.Observation{Exists: true, UID: r.UID, State: state, Values: catalog.Values(shown)}, ctx.Err()
}

// isGone reports whether there is no tree where that of a volume should be.
func (d *Driver) isGone(r *record) bool {
	_, err := os.Lstat(d.Trees.Path(r.Resource.HostName()))
	return errors.Is(err, fs.ErrNotExist)
}

// List returns every volume that has a record, finished or not.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return d.records().Resources(ctx)
}

// Volume returns a volume that is there as a whole.
func (d *Driver) Volume(_ context.Context, project writ.ProjectID, volume writ.Ref) (sal.Volume, error) {
	r, err := d.whole(project, volume)
	if err != nil {
		return sal.Volume{}, err
	}
	return sal.Volume{UID: r.UID, Dir: d.Trees.Path(r.Resource.HostName()), SizeGiB: r.Own.SizeGiB}, nil
}

// whole returns the record of a volume that a handle or a name means.
func (d *Driver) whole(project writ.ProjectID, volume writ.Ref) (*record, error) {
	resource := writ.ResourceID{Project: project, Kind: writ.KindVolume, Name: volume.Name}
	r, err := d.records().Get(resource)
	if err != nil {
		return nil, err
	}
	if r != nil && r.Own.Phase.closed() {
		return nil, writ.Errorf(writ.CodeResourceBusy, "%s is just being deleted or put back to a snapshot", resource)
	}
	if r == nil || r.Own.Phase != ready {
		return nil, sal.Unknown(resource)
	}
	if volume.UID == "" {
		return r, nil
	}
	return r, r.Owned(sal.Request{Resource: resource, UID: volume.UID})
}

// Keep finishes a deletion, takes away what was kept for another node or came from one and is over, and lets the tree be held against its record.
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
		return nil, nil // whoever asked for it asks again
	case leaving, restoring:
		if err := j.open(r); err != nil {
			return nil, err
		}
	}
	if err := j.finishArchives(r); err != nil {
		return nil, err
	}
	j.forgetHalf()
	j.forgetArrival()
	if now := j.now(); r.Own.Shipments != nil {
		if err := j.letGo(ctx, r, func(kept shipment) bool { return now.After(kept.Until) }); err != nil {
			return nil, err
		}
	}
	return d.Trees.Keep(ctx, j.name, j.bound(r.Own.SizeGiB))
}

// Orphans are trees that have the name of a volume and belong to none.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	trees, err := d.Trees.List(ctx)
	if err != nil {
		return nil, err
	}
	records, damaged, err := d.records().List() // after the trees: what was made before its record was read has one
	if err != nil {
		return nil, err
	}
	example := writ.ResourceID{Kind: writ.KindVolume}.HostName()
	all := sal.DamagedOrphans(damaged)
	for _, name := range trees {
		owned := slices.ContainsFunc(records, func(r *record) bool { return r.Resource.HostName() == name }) ||
			slices.ContainsFunc(damaged, func(r sal.Damaged) bool { return r.HostName == name })
		if !owned && len(name) == len(example) && strings.HasPrefix(name, example[:1]) {
			all = append(all, sal.Orphan{Kind: "tree", Name: d.Trees.Path(name), Of: name, Remedy: d.Trees.Remedy(name)})
		}
	}
	return all, nil
}

// Usage returns the size of a volume, whether it is full or not, and the size of its archives.
func (d *Driver) Usage(_ context.Context, resource writ.ResourceID) (sal.Usage, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Usage{}, err
	}
	return sal.Usage{DiskGiB: r.Own.diskGiB()}, nil
}

// show is a handle to the volume.
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
