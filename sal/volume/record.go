package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
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

// phase marks an operation that a crash may have interrupted.
type phase string

const (
	making   phase = "making"   // a tree may exist, but is incomplete
	ready    phase = "ready"    // the tree is complete
	deleting phase = "deleting" // the tree may be partly removed; the next operation removes the rest
	// In the next two phases the tree is complete, but no resource may start to use the volume until the driver has
	// checked for users. A user records its use before it looks up the volume. So either the driver finds the user, or
	// the lookup fails because of the phase.
	leaving   phase = "leaving"   // deleted if the volume has no users
	restoring phase = "restoring" // restored to a snapshot if no user is running
)

// closed reports whether resources may not start to use the volume although it exists.
func (p phase) closed() bool { return p == leaving || p == restoring }

type record = sal.Record[own]

const gib = 1 << 30

// Limits for archives. The archives of a volume count towards the disk usage of the node, like the volume itself.
const (
	maxArchives        = 16  // per volume
	maxProjectArchives = 256 // per project and node, including deleted volumes
	// maxArchiveShare limits the total size of a volume's archives, as a multiple of the size of the volume. The same
	// factor limits the archives of a project by the size of its volumes.
	maxArchiveShare = 2
)

// archive is a file in the backup directory that belongs to a volume.
type archive struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Pending means that the file may not exist yet, or may belong to another volume that took the name first.
	Pending bool `json:"pending,omitempty"`
}

// archiveBytes returns the size of all archives of the volume.
func (o *own) archiveBytes() (sum int64) {
	for _, a := range o.Archives {
		sum += a.Bytes
	}
	return sum
}

// diskGiB returns the disk usage of the volume and its archives on the node, in GiB.
func (o *own) diskGiB() int64 { return o.SizeGiB + (o.archiveBytes()+gib-1)/gib }

func (o *own) archiveNames() (names []string) {
	for _, a := range o.Archives {
		if !a.Pending {
			names = append(names, a.Name)
		}
	}
	slices.Sort(names)
	return names
}

// roomFor returns QUOTA_EXCEEDED if the volume has no room for another archive.
func (o *own) roomFor(volume writ.ResourceID, bytes int64) error {
	have, most := o.archiveBytes(), maxArchiveShare*o.SizeGiB*gib
	if len(o.Archives) < maxArchives && have+bytes <= most {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded,
		"%s has %d archives with %d MiB, and the new one has %d MiB: the limits are %d archives and %d GiB",
		volume, len(o.Archives), have>>20, (bytes+1<<20-1)>>20, maxArchives, most>>30).
		WithHint("delete one with volume.discard(%q, {backup: NAME}), or grow the volume; its archives are %v",
			volume.Name, o.archiveNames())
}

// ownedArchives returns the names of the archives that belong to the volumes of a project.
func ownedArchives(records []*record, project writ.ProjectID) map[string]bool {
	owned := map[string]bool{}
	for _, r := range records {
		if r.Resource.Project != project {
			continue
		}
		for _, a := range r.Own.Archives {
			owned[a.Name] = true
		}
	}
	return owned
}

// findComplete returns the record of the complete volume with a handle or name. It returns RESOURCE_BUSY if the volume
// is being deleted or restored, RESOURCE_UNKNOWN if it is missing or incomplete, and RESOURCE_CONFLICT if the UID
// differs.
func findComplete(records *sal.Records[own], project writ.ProjectID, volume writ.Ref) (*record, error) {
	resource := writ.ResourceID{Project: project, Kind: writ.KindVolume, Name: volume.Name}
	r, err := records.Get(resource)
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

// contentMissing reports whether the tree of a volume is missing.
func contentMissing(trees sal.Trees, r *record) bool {
	_, err := os.Lstat(trees.Path(r.Resource.HostName()))
	return errors.Is(err, fs.ErrNotExist)
}

// show returns the volume as operations report it.
func show(ctx context.Context, trees sal.Trees, r *record) (v catalog.Volume, err error) {
	v = catalog.Volume{
		Identity: catalog.Identify(r.Resource, r.UID, false), Path: trees.Path(r.Resource.HostName()),
		SizeGiB: r.Own.SizeGiB, DiskGiB: r.Own.diskGiB(), Backups: r.Own.archiveNames(),
	}
	v.Snapshots, err = visibleSnapshots(ctx, trees, r.Resource)
	return v, err
}
