package catalog

import (
	"time"

	"writ"
)

// VolumeCreate holds the arguments of volume.create.
type VolumeCreate struct {
	SizeGiB int64    `writ:"size_gib,required,mutable,min=1,max=65536,uses=disk_gib" help:"size in GiB; it can grow and never shrink"`
	Image   writ.Ref `writ:"image,kinds=image,byname" help:"an image of the project on the node that fills the volume; without it the volume is empty"`
}

// VolumeResize holds the arguments of volume.resize.
type VolumeResize struct {
	SizeGiB int64 `writ:"size_gib,required,min=1,max=65536,uses=disk_gib" help:"the new size in GiB; not less than it has"`
}

// VolumeClone holds the arguments of volume.clone.
type VolumeClone struct {
	From     writ.Ref `writ:"from,required,kinds=volume" help:"the volume to copy; the new one is on the same node"`
	Snapshot string   `writ:"snapshot,form=name" help:"copy this snapshot of it instead of what it holds now"`
	SizeGiB  int64    `writ:"size_gib,mutable,min=1,max=65536,uses=disk_gib" help:"size in GiB, not less than the source's; the source's if not given"`
}

// VolumeCopy holds the arguments of volume.copy.
type VolumeCopy struct {
	From     writ.Ref `writ:"from,required,kinds=volume,byname,elsewhere" help:"the volume to copy, on any node: a handle to it, or the name of one that the project has"`
	Snapshot string   `writ:"snapshot,form=name" help:"copy this snapshot of it instead of what it holds now"`
	SizeGiB  int64    `writ:"size_gib,required,mutable,min=1,max=65536,uses=disk_gib" help:"size in GiB, not less than the source's"`
}

// VolumeSend holds the arguments of volume.send.
type VolumeSend struct {
	Backup   string `writ:"backup,required,form=name" help:"name of the archive to write into the node's backup directory; it must not exist"`
	Snapshot string `writ:"snapshot,form=name" help:"send this snapshot instead of what the volume holds now"`
}

// VolumeDiscard holds the arguments of volume.discard.
type VolumeDiscard struct {
	Backup string `writ:"backup,required,form=name" help:"name of an archive of this volume, or of a deleted volume"`
}

// VolumeReceive holds the arguments of volume.receive.
type VolumeReceive struct {
	Backup  string `writ:"backup,required,form=name" help:"name of the archive in the node's backup directory"`
	SHA256  string `writ:"sha256,form=sha256" help:"the SHA-256 that the archive must have"`
	SizeGiB int64  `writ:"size_gib,required,mutable,min=1,max=65536,uses=disk_gib" help:"size in GiB; what is in the archive must fit"`
}

// Volume is the result of operations on a volume.
type Volume struct {
	Identity
	Path      string   `writ:"path,required" help:"where its content is on the node"`
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
	volume := Operation{Module: "volume", Kind: writ.KindVolume, Repeat: Safe}
	return []*Operation{
		declare[VolumeCreate, Volume](volume.with("create", Make, 10*time.Minute,
			"Makes a volume, empty or filled with an image; a later call with a bigger size lets it grow.").adds()),
		declare[Nothing, Volume](volume.with("get", Find, time.Minute,
			"Finds a volume that an earlier run made.").reads()),
		declare[VolumeResize, Volume](volume.with("resize", Alter, 5*time.Minute,
			"Lets a volume grow.").adds()),
		declare[Snapshot, Volume](volume.with("snapshot", Alter, 5*time.Minute,
			"Keeps what a volume holds now as a snapshot; one that exists under the name stays as it is.").adds()),
		declare[Snapshot, Volume](volume.with("restore", Alter, 10*time.Minute,
			"Puts a volume back to a snapshot; what was written since is lost.").
			destroys("What was written to the volume since the snapshot.").once()),
		declare[Snapshot, Volume](volume.with("delete_snapshot", Alter, 5*time.Minute,
			"Deletes a snapshot of a volume; the volume keeps its content.").destroys("The snapshot.")),
		declare[VolumeClone, Volume](volume.with("clone", Make, 10*time.Minute,
			"Makes a new volume with the content of another one.").adds()),
		declare[VolumeCopy, Volume](volume.with("copy", Make, time.Hour,
			"Makes a new volume with the content of one that may be on another node. A copy that is cut off continues where it was.").adds()),
		declare[VolumeSend, VolumeSent](volume.with("send", Look, time.Hour,
			"Writes a volume's content as an archive into the node's backup directory. The archive belongs to the volume.").adds().once().measured()),
		declare[VolumeDiscard, Volume](volume.with("discard", Alter, 5*time.Minute,
			"Deletes an archive of a volume, or of a deleted volume of the project, from the node's backup directory.").destroys("The archive.")),
		declare[VolumeReceive, Volume](volume.with("receive", Make, time.Hour,
			"Makes a new volume from an archive in the node's backup directory.").adds()),
		declare[Nothing, Identity](volume.with("delete", Remove, 5*time.Minute,
			"Deletes a volume, its content and its snapshots. Its archives stay.").destroys("The volume, its content and its snapshots.")),
	}
}
