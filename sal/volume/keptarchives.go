package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"writ"
	"writ/sal"
)

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

// reserve records a new archive before it is written, if the limits permit it. The archive counts towards the project's
// limit until release is called. The caller calls it when the file exists or the call has failed.
func (j *job) reserve(ctx context.Context, r *record, name string, bytes int64) (release func(), err error) {
	if err := r.Own.roomFor(r.Resource, bytes); err != nil {
		return nil, err
	}
	j.coming.checking.Lock()
	defer j.coming.checking.Unlock()
	if err := j.projectRoom(bytes); err != nil {
		return nil, err
	}
	disk := sal.Bound{Bytes: r.Own.SizeGiB*gib + bytes, Project: r.Resource.Project}
	if err := j.Trees.Room(ctx, j.name, disk); err != nil {
		return nil, err
	}
	r.Own.Archives = append(r.Own.Archives, archive{Name: name, Bytes: bytes, Pending: true})
	if err := j.records().Put(r); err != nil {
		return nil, err
	}
	return j.coming.add(r.Resource.Project, bytes), nil
}

// projectRoom returns QUOTA_EXCEEDED if the project has no room for another archive on the node.
func (j *job) projectRoom(bytes int64) error {
	records, _, err := j.records().List()
	if err != nil {
		return err
	}
	most := int64(0)
	for _, r := range records {
		if r.Resource.Project == j.Resource.Project {
			most += maxArchiveShare * r.Own.SizeGiB * gib
		}
	}
	have, count, err := j.projectArchives(j.Resource.Project)
	if err != nil || have+bytes <= most && count < maxProjectArchives {
		return err
	}
	return writ.Errorf(writ.CodeQuotaExceeded,
		"the project has %d archives with %d MiB on the node, and the new one has %d MiB: the limits are %d archives, and %d GiB with its volumes",
		count, have>>20, (bytes+1<<20-1)>>20, maxProjectArchives, most>>30).
		WithHint("delete one with volume.discard(%q, {backup: NAME}); archives of deleted volumes are %v",
			j.Resource.Name, j.unowned(records))
}

// ownedArchives returns the archives of these volumes as PROJECT/NAME.
func ownedArchives(records []*record) map[string]bool {
	owned := map[string]bool{}
	for _, r := range records {
		for _, a := range r.Own.Archives {
			owned[filepath.Join(string(r.Resource.Project), a.Name)] = true
		}
	}
	return owned
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
	owned := ownedArchives(records)
	for _, project := range projects {
		entries, err := os.ReadDir(filepath.Join(d.Dir, "backups", project))
		if err != nil {
			return 0, sal.HostError("list the archives", err)
		}
		for _, e := range entries {
			name, whole := strings.CutSuffix(e.Name(), ".tar")
			if !whole || owned[filepath.Join(project, name)] {
				continue
			}
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
				sum += info.Size()
			}
		}
	}
	return sum, ctx.Err()
}

// unowned returns the names of some archives of the project that belong to none of the volumes in records.
func (j *job) unowned(records []*record) (names []string) {
	const most = 20
	owned := ownedArchives(records)
	entries, _ := os.ReadDir(filepath.Dir(j.backupPath(""))) // the limits hold without these names
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".tar")
		if ok && len(names) < most && !owned[filepath.Join(string(j.Resource.Project), name)] {
			names = append(names, name)
		}
	}
	return names
}

// finishArchives completes or removes the entries of interrupted volume.send calls.
func (j *job) finishArchives(r *record) error {
	if !slices.ContainsFunc(r.Own.Archives, func(a archive) bool { return a.Pending }) {
		return nil
	}
	var kept []archive
	for _, a := range r.Own.Archives {
		if a.Pending && !j.isPart(a.Name) {
			continue
		}
		a.Pending = false
		kept = append(kept, a)
	}
	r.Own.Archives = kept
	return j.records().Put(r)
}

// isPart reports whether this volume was the last to write an archive.
func (j *job) isPart(name string) bool {
	part, err := os.Lstat(j.partPath())
	if err != nil {
		return false
	}
	whole, err := os.Lstat(j.backupPath(name))
	return err == nil && os.SameFile(part, whole)
}

// discard deletes an archive that belongs to this volume or to a deleted one. An unknown archive is not an error.
func (j *job) discard(ctx context.Context, r *record, name string) (sal.Outcome, error) {
	if _, err := j.Trees.Keep(ctx, j.name, j.bound(r.Own.SizeGiB)); err != nil { // finishes an interrupted volume.send
		return sal.Outcome{}, err
	}
	if err := j.finishArchives(r); err != nil {
		return sal.Outcome{}, err
	}
	owner, err := j.ownerOf(name)
	if err != nil {
		return sal.Outcome{}, err
	}
	if owner != nil && owner.Resource != r.Resource {
		return sal.Outcome{}, writ.Errorf(writ.CodeResourceConflict, "the archive %q belongs to %s", name,
			owner.Resource).
			WithHint("delete it with volume.discard(%q, {backup: %q})", owner.Resource.Name, name)
	}
	removed, err := j.removeArchive(name)
	if err != nil {
		return sal.Outcome{}, err
	}
	if owner != nil {
		r.Own.Archives = slices.DeleteFunc(slices.Clone(r.Own.Archives), func(a archive) bool { return a.Name == name })
		if err := j.records().Put(r); err != nil {
			return sal.Outcome{}, err
		}
	}
	if owner == nil && !removed {
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

// ownerOf returns the volume of the project that owns an archive, or nil.
func (j *job) ownerOf(name string) (*record, error) {
	records, damaged, err := j.records().List()
	if err != nil {
		return nil, err
	}
	if len(damaged) > 0 {
		return nil, writ.Errorf(writ.CodeDriverRefused,
			"the node cannot read the record %s, which may belong to the volume with the archive %q", damaged[0].Path,
			name)
	}
	for _, r := range records {
		if r.Resource.Project == j.Resource.Project &&
			slices.ContainsFunc(r.Own.Archives, func(a archive) bool { return a.Name == name }) {
			return r, nil
		}
	}
	return nil, nil
}

// removeArchive deletes the file of an archive. It reports whether the file existed.
func (j *job) removeArchive(name string) (removed bool, err error) {
	if j.isPart(name) {
		j.removePart()
	}
	path := j.backupPath(name)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	j.step("delete the archive")
	err = os.Remove(path)
	if err == nil {
		err = sal.SyncDir(filepath.Dir(path))
	}
	return true, sal.HostError(fmt.Sprintf("delete the archive %q", name), err)
}

// ArchiveBytes returns the size of all archives of a project, including those of deleted volumes and those being
// written.
func (d *Driver) ArchiveBytes(project writ.ProjectID) (int64, error) {
	bytes, _, err := d.projectArchives(project)
	return bytes, err
}

func (d *Driver) projectArchives(project writ.ProjectID) (bytes int64, count int, err error) {
	entries, err := os.ReadDir(filepath.Join(d.Dir, "backups", string(project)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, sal.HostError("add up the archives of a project", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && filepath.Ext(e.Name()) == ".tar" {
			bytes += info.Size()
			count++
		}
	}
	coming, more := d.coming.of(project)
	return bytes + coming, count + more, nil
}

// archivesBefore returns the archives of a volume that is made again because its content is gone.
func (j *job) archivesBefore(r *record) ([]archive, error) {
	before, err := j.records().Get(r.Resource)
	if err != nil || before == nil || before.UID != r.UID {
		return nil, err
	}
	return before.Own.Archives, nil
}
