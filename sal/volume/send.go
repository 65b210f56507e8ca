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

// send writes the archive to a temporary file and links the file to the archive's name once it is complete. The record
// has the archive's name before the file is written.
func (j *job) send(ctx context.Context, r *record, args *catalog.VolumeSend) (sal.Outcome, error) {
	if args.Snapshot != "" {
		if err := checkSnapshot(ctx, j.Trees, j.Resource, args.Snapshot); err != nil {
			return sal.Outcome{}, err
		}
	}
	if err := j.finishArchives(r); err != nil {
		return sal.Outcome{}, err
	}
	if _, err := os.Lstat(j.backups.path(args.Backup)); err == nil {
		return j.sent(ctx, r, args)
	}
	from, done, err := j.Trees.View(ctx, j.name, args.Snapshot)
	if err != nil {
		return sal.Outcome{}, err
	}
	sum, err := j.write(ctx, r, args.Backup, from)
	if err := errors.Join(err, done()); err != nil {
		j.draft.remove()
		_ = j.finishArchives(r) // after an error, the next call repeats it
		return sal.Outcome{}, sal.HostError("write the backup "+args.Backup, err)
	}
	if err := j.finishArchives(r); err != nil {
		return sal.Outcome{}, err
	}
	j.draft.remove() // last, because until then the draft identifies the archive of an interrupted attempt
	return j.sentOutcome(ctx, r, args, sum)
}

// write writes an archive under its name and returns its SHA-256.
func (j *job) write(ctx context.Context, r *record, name, from string) (sum string, err error) {
	size, err := packedSize(ctx, from)
	if err != nil {
		return "", err
	}
	release, err := j.reserve(ctx, r, name, size)
	if err != nil {
		return "", err
	}
	defer release()
	if sum, err = j.draft.write(ctx, from, size); err != nil {
		return "", err
	}
	err = j.draft.link(j.backups.path(name))
	if errors.Is(err, fs.ErrExist) {
		return "", backupExists(name)
	}
	return sum, err
}

// sent returns the outcome for an existing archive if an interrupted attempt for this volume completed it. For any
// other archive of that name it returns RESOURCE_CONFLICT.
func (j *job) sent(ctx context.Context, r *record, args *catalog.VolumeSend) (sal.Outcome, error) {
	if !j.draft.is(j.backups.path(args.Backup)) {
		return sal.Outcome{}, backupExists(args.Backup)
	}
	sum, err := j.draft.sum(ctx)
	if err != nil {
		return sal.Outcome{}, sal.HostError("read the backup "+args.Backup, err)
	}
	j.draft.remove()
	return j.sentOutcome(ctx, r, args, sum)
}

func (j *job) sentOutcome(ctx context.Context, r *record, args *catalog.VolumeSend, sum string) (sal.Outcome, error) {
	v, err := show(ctx, j.Trees, r)
	return sal.Outcome{Values: catalog.Values(catalog.VolumeSent{Volume: v, Backup: args.Backup, SHA256: sum})}, err
}

func backupExists(name string) error {
	return writ.Errorf(writ.CodeResourceConflict, "the node already has a backup %q", name).WithHint("use another name")
}

// reserve records a new archive before it is written, if the limits permit it. The archive counts towards the project's
// limit until release is called. The caller calls release when the file exists or the call has failed.
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

// maxNamedArchives limits how many archives of deleted volumes an error lists.
const maxNamedArchives = 20

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
	have, count, err := j.backups.usage()
	if err != nil || have+bytes <= most && count < maxProjectArchives {
		return err
	}
	var names []string
	unowned, _ := j.backups.unowned(records) // after an error, the hint lacks the names
	for _, f := range unowned[:min(len(unowned), maxNamedArchives)] {
		names = append(names, archiveName(f))
	}
	return writ.Errorf(writ.CodeQuotaExceeded,
		"the project has %d archives with %d MiB on the node, and the new one has %d MiB: the limits are %d archives, and %d GiB with its volumes",
		count, have>>20, (bytes+1<<20-1)>>20, maxProjectArchives, most>>30).
		WithHint("delete one with volume.discard(%q, {backup: NAME}); archives of deleted volumes are %v",
			j.Resource.Name, names)
}

// finishArchives completes or removes the entries of interrupted volume.send calls.
func (j *job) finishArchives(r *record) error {
	if !slices.ContainsFunc(r.Own.Archives, func(a archive) bool { return a.Pending }) {
		return nil
	}
	var kept []archive
	for _, a := range r.Own.Archives {
		if a.Pending && !j.draft.is(j.backups.path(a.Name)) {
			continue
		}
		a.Pending = false
		kept = append(kept, a)
	}
	r.Own.Archives = kept
	return j.records().Put(r)
}

// discard deletes an archive that belongs to this volume or to a deleted volume. An unknown archive is not an error.
func (j *job) discard(ctx context.Context, r *record, name string) (sal.Outcome, error) {
	if _, err := j.Trees.Keep(ctx, j.name, j.bound(r.Own.SizeGiB)); err != nil { // finishes an interrupted volume.send
		return sal.Outcome{}, err
	}
	if err := j.finishArchives(r); err != nil {
		return sal.Outcome{}, err
	}
	owner, err := j.backups.owner(j.records(), name)
	if err != nil {
		return sal.Outcome{}, err
	}
	if owner != nil && owner.Resource != r.Resource {
		return sal.Outcome{}, writ.Errorf(writ.CodeResourceConflict, "the archive %q belongs to %s", name,
			owner.Resource).
			WithHint("delete it with volume.discard(%q, {backup: %q})", owner.Resource.Name, name)
	}
	if j.draft.is(j.backups.path(name)) {
		j.draft.remove()
	}
	removed, err := j.backups.remove(name)
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

// archivesBefore returns the archives of a volume that is made again because its content is gone.
func (j *job) archivesBefore(r *record) ([]archive, error) {
	before, err := j.records().Get(r.Resource)
	if err != nil || before == nil || before.UID != r.UID {
		return nil, err
	}
	return before.Own.Archives, nil
}
