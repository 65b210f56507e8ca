package cloudhypervisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"writ"
	"writ/sal"
	"writ/sal/cloudhypervisor/api"
)

// prepared sets in r the launch ID and the user of a process that is about to start. If the user changes, it first
// takes disks back from the previous user, because another machine can get a user ID that no record contains.
func (j *job) prepared(ctx context.Context, r *sal.Record[own]) error {
	process, err := newProcess()
	if err != nil {
		return err
	}
	user := r.Own.User
	switch {
	case !j.Accounts.Used():
		user = 0
	case !j.Accounts.Has(user):
		user, err = j.chooseUser(r.Resource)
	}
	if err == nil && r.Own.User != 0 && r.Own.User != user {
		if err = j.removeCgroup(ctx, r); err == nil {
			err = j.revokeDisks(ctx, r.Resource, r.Own.Volumes)
		}
	}
	if err != nil {
		return err
	}
	r.Own.Process, r.Own.User, r.Own.Taps = process, user, nil // unknown until the taps are made
	return nil
}

// chooseUser returns a user ID that no other machine uses.
func (j *job) chooseUser(resource writ.ResourceID) (uint32, error) {
	user, err := j.users.Choose(j.Accounts, resource.HostName(), func() (map[uint32]string, error) {
		records, _, err := j.records().List()
		used := map[uint32]string{}
		for _, r := range records {
			used[r.Own.User] = r.Resource.HostName()
		}
		return used, err
	}, j.machines())
	return user, sal.HostError("find a user for "+resource.String(), err)
}

// chownDir gives the machine's user access to its directory, and ownership of the files that its process writes. Only
// the driver can create files there.
func (j *job) chownDir(r *sal.Record[own]) error {
	if r.Own.User == 0 {
		return sal.HostError("take "+j.dir+" back", sal.ReclaimPath(j.dir, j.step))
	}
	j.step("hand the directory over")
	err := j.Accounts.Lead(j.machines())
	if err == nil {
		err = sal.HandPath(j.dir, r.Own.User)
	}
	console := filepath.Join(j.dir, consoleName)
	if err == nil {
		err = touch(console)
	}
	if err == nil {
		err = sal.HandFile(console, r.Own.User, r.Own.User, 0o600)
	}
	return sal.HostError("hand "+j.dir+" over", err)
}

//failpoint:none the caller names the write
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// chownSeed gives the machine's user the cloud-init disk, if there is one.
func (j *job) chownSeed(r *sal.Record[own]) error {
	seed := filepath.Join(j.dir, seedName)
	if _, err := os.Lstat(seed); r.Own.User == 0 || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	j.step("hand the seed over")
	return sal.HostError("hand "+seed+" over", sal.HandFile(seed, r.Own.User, r.Own.User, 0o400))
}

// payloadNames are the names of the copied boot files.
var payloadNames = []string{"kernel", "initramfs", "firmware"}

// ownPayload copies the boot files into the machine's directory, because its user cannot read images.
func (j *job) ownPayload(ctx context.Context, r *sal.Record[own], p api.Payload) (api.Payload, error) {
	for i, path := range []*string{&p.Kernel, &p.Initramfs, &p.Firmware} {
		name := payloadNames[i]
		to := filepath.Join(j.dir, name)
		j.step("clear the " + name)
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return p, sal.HostError("clear the "+name, err)
		}
		if *path == "" {
			continue
		}
		j.step("copy the " + name)
		if err := copyTo(ctx, to, *path, r.Own.User); err != nil {
			return p, sal.HostError("copy the "+name+" of "+r.Resource.String(), err)
		}
		*path = to
	}
	return p, nil
}

// copyTo copies a file and lets user read it. The copy is not synced: the next start makes it again.
//
//failpoint:none the caller names the write
func copyTo(ctx context.Context, to, path string, user uint32) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(sal.CopyFile(ctx, f, from), f.Close()); err != nil {
		return err
	}
	return sal.HandFile(to, 0, user, 0o640)
}

// chownDisk gives the disk of a volume to the machine's user. If the process runs as the driver's user, chownDisk takes
// the disk back from any other user.
func (j *job) chownDisk(r *sal.Record[own], v disk, volume sal.Volume) error {
	if r.Own.User == 0 {
		return sal.HostError("take the disk of the volume "+v.Volume.Name+" back", sal.ReclaimDisk(volume.Dir, j.step))
	}
	var err error
	if j.Accounts.Used() { // otherwise the process was started when accounts were configured
		err = j.Accounts.Lead(filepath.Dir(volume.Dir))
	}
	if err == nil {
		err = sal.HandDisk(volume.Dir, r.Own.User, v.ReadOnly, j.step)
	}
	return sal.HostError("hand the disk of the volume "+v.Volume.Name+" over", err)
}

// revokeDisks takes disks back from the user of a machine. It skips volumes that no longer exist.
func (j *job) revokeDisks(ctx context.Context, resource writ.ResourceID, disks []disk) error {
	for _, v := range disks {
		volume, err := j.Volumes.Volume(ctx, resource.Project, v.Volume)
		if code := writ.CodeOf(err); code == writ.CodeResourceUnknown || code == writ.CodeResourceConflict {
			continue
		}
		if err == nil {
			err = sal.ReclaimDisk(volume.Dir, j.step)
		}
		if err != nil {
			return sal.HostError("take the disk of the volume "+v.Volume.Name+" back", err)
		}
	}
	return nil
}

// chownMemory lets the machine's process write its memory into a snapshot in progress.
func (j *job) chownMemory(r *sal.Record[own], snapshot string) error {
	if r.Own.User == 0 {
		return nil
	}
	j.step("hand the snapshot over")
	if err := sal.HandPath(snapshot, r.Own.User); err != nil {
		return err
	}
	return os.Lchown(memoryDir(snapshot), int(r.Own.User), int(r.Own.User))
}

// chownSnapshot lets the machine's process read the memory of a snapshot, which may belong to an earlier user.
func (j *job) chownSnapshot(ctx context.Context, r *sal.Record[own], snapshot string) error {
	for _, v := range r.Own.Volumes { // the restore created the disk files as the driver's user
		if _, err := j.diskFile(ctx, r, v); err != nil {
			return err
		}
	}
	if r.Own.User == 0 {
		return nil
	}
	j.step("hand the snapshot over")
	err := errors.Join(sal.HandPath(filepath.Dir(snapshot), r.Own.User), sal.HandPath(snapshot, r.Own.User),
		sal.HandPath(memoryDir(snapshot), r.Own.User))
	if err != nil {
		return sal.HostError("hand the snapshot over", err)
	}
	names, err := sal.FileNames(memoryDir(snapshot))
	var paths []string
	for _, name := range names {
		paths = append(paths, filepath.Join(memoryDir(snapshot), name))
	}
	for _, name := range payloadNames { // a guest that reboots loads them again
		path := filepath.Join(j.dir, name)
		if _, there := os.Lstat(path); there == nil {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		if err == nil {
			err = sal.HandFile(path, 0, r.Own.User, 0o640)
		}
	}
	return sal.HostError("hand the snapshot over", err)
}
