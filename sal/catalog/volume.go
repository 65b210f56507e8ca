package catalog

import (
	"time"

	"writ"
)

// VolumeCreate holds the arguments of volume.create.
type VolumeCreate struct {
	SizeGiB int64    `writ:"size_gib,required,mutable,min=1,max=65536,uses=disk_gib" help:"size in GiB; it can grow but not shrink"`
	Image   writ.Ref `writ:"image,kinds=image,byname,formats=raw|qcow2" help:"an image of the project on the node for the content; without it, the volume is empty"`
}

// VolumeResize holds the arguments of volume.resize.
type VolumeResize struct {
	SizeGiB int64 `writ:"size_gib,required,min=1,max=65536,uses=disk_gib" help:"the new size in GiB; it cannot shrink"`
}

// VolumeClone holds the arguments of volume.clone.
type VolumeClone struct {
	From     writ.Ref `writ:"from,required,kinds=volume" help:"the volume to copy; the new volume is on the same node"`
	Snapshot string   `writ:"snapshot,form=name" help:"copies this snapshot instead of the current content"`
	SizeGiB  int64    `writ:"size_gib,mutable,min=1,max=65536,uses=disk_gib" help:"size in GiB, at least the source's, which is the default"`
}

// VolumeCopy holds the arguments of volume.copy.
type VolumeCopy struct {
	From     writ.Ref `writ:"from,required,kinds=volume,byname,elsewhere" help:"the volume to copy, on any node: a handle, or the name of a volume of the project"`
	Snapshot string   `writ:"snapshot,form=name" help:"copies this snapshot instead of the current content"`
	SizeGiB  int64    `writ:"size_gib,required,mutable,min=1,max=65536,uses=disk_gib" help:"size in GiB, at least the source's"`
}

// VolumeSend holds the arguments of volume.send.
type VolumeSend struct {
	Backup   string `writ:"backup,required,form=name" help:"name of the archive to write into the node's backup directory; it must not exist"`
	Snapshot string `writ:"snapshot,form=name" help:"sends this snapshot instead of the current content"`
}

// VolumeDiscard holds the arguments of volume.discard.
type VolumeDiscard struct {
	Backup string `writ:"backup,required,form=name" help:"name of an archive of this volume, or of a deleted volume"`
}

// VolumeReceive holds the arguments of volume.receive.
type VolumeReceive struct {
	Backup  string `writ:"backup,required,form=name" help:"name of the archive in the node's backup directory"`
	SHA256  string `writ:"sha256,form=sha256" help:"the expected SHA-256 of the archive"`
	SizeGiB int64  `writ:"size_gib,required,mutable,min=1,max=65536,uses=disk_gib" help:"size in GiB; the content of the archive must fit"`
}

// Volume is the result of operations on a volume.
type Volume struct {
	Identity
	Path      string   `writ:"path,required" help:"path of its content on the node"`
	SizeGiB   int64    `writ:"size_gib,required" help:"size in GiB"`
	Snapshots []string `writ:"snapshots" help:"the names of its snapshots, sorted"`
	Backups   []string `writ:"backups" help:"the names of its archives in the node's backup directory, sorted"`
	DiskGiB   int64    `writ:"disk_gib,uses=disk_gib" help:"disk space that it occupies on its node, in GiB: its size and its archives"`
}

// VolumeSent is the result of volume.send.
type VolumeSent struct {
	Volume
	Backup string `writ:"backup,required" help:"name of the archive"`
	SHA256 string `writ:"sha256,required" help:"SHA-256 of the archive"`
}

func volumeOperations() []*Operation {
	volume := declaration{Module: "volume", Kind: writ.KindVolume, Repeat: Safe}
	return []*Operation{
		declare[VolumeCreate, Volume](volume.with("create", Make, 10*time.Minute,
			"Creates a volume, empty or from an image. A later call with a larger size grows it.").adds()),
		declare[Nothing, Volume](volume.with("get", Find, time.Minute,
			"Finds a volume that an earlier run created.").reads()),
		declare[VolumeResize, Volume](volume.with("resize", Alter, 5*time.Minute,
			"Grows a volume.").adds()),
		declare[Snapshot, Volume](volume.with("snapshot", Alter, 5*time.Minute,
			"Creates a snapshot of a volume. An existing snapshot with the name stays unchanged.").adds()),
		declare[Snapshot, Volume](volume.with("restore", Alter, 10*time.Minute,
			"Restores a volume from a snapshot. Data written since then is lost.").
			destroys("Data written to the volume since the snapshot.").once()),
		declare[Snapshot, Volume](volume.with("delete_snapshot", Alter, 5*time.Minute,
			"Deletes a snapshot of a volume; the volume keeps its content.").destroys("The snapshot.")),
		declare[VolumeClone, Volume](volume.with("clone", Make, 10*time.Minute,
			"Creates a volume with the content of another volume.").adds()),
		declare[VolumeCopy, Volume](volume.with("copy", Make, time.Hour,
			"Creates a volume with the content of a volume on any node. An interrupted copy resumes.").adds()),
		declare[VolumeSend, VolumeSent](volume.with("send", Look, time.Hour,
			"Writes a volume's content as an archive into the node's backup directory. The archive belongs to the volume.").
			adds().once().measured()),
		declare[VolumeDiscard, Volume](volume.with("discard", Alter, 5*time.Minute,
			"Deletes an archive of a volume, or of a deleted volume of the project, from the node's backup directory.").
			destroys("The archive.")),
		declare[VolumeReceive, Volume](volume.with("receive", Make, time.Hour,
			"Creates a volume from an archive in the node's backup directory.").adds()),
		declare[Nothing, Identity](volume.with("delete", Remove, 5*time.Minute,
			"Deletes a volume, its content and its snapshots. Its archives stay.").destroys(
			"The volume, its content and its snapshots.")),
	}
}

// DiskInUse returns the error for a machine that needs a volume which another machine uses.
func DiskInUse(user writ.ResourceID, volume string) *writ.Error {
	return writ.Errorf(writ.CodeResourceConflict,
		"%s uses the volume %q, and only one machine at a time can use a volume", user, volume).
		WithHint("detach it there, or clone it")
}

// VolumeInUse returns the error of an operation that requires a volume without users.
func VolumeInUse(user, volume writ.ResourceID) *writ.Error {
	return writ.Errorf(writ.CodeResourceBusy, "%s uses the %s", user, volume).
		WithHint("detach it there, or delete the %s first", user)
}
