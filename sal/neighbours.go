package sal

import (
	"cmp"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	"writ"
	"writ/sal/catalog"
)

// The interfaces below connect the drivers on one host. Drivers do not import each other; the code that wires a node
// passes the implementations. All methods are idempotent, like operations, and their errors are *writ.Error.

// Owner is a machine, container or database that uses an image, a volume or a network. After a crash, the UID alone is
// enough to find everything that the owner holds.
type Owner struct {
	Resource writ.ResourceID
	UID      writ.UID
	IDs      uint32 // first of the host's user IDs reserved for the owner, or 0; set only for Namespace
}

// Images provides the images on this host.
type Images interface {
	// Image returns a complete image of a project. It returns RESOURCE_UNKNOWN if no image has the name,
	// RESOURCE_CONFLICT if the handle refers to another image, and RESOURCE_BUSY if the image is being deleted. The file
	// does not change and stays until the image is deleted. A caller that keeps using the file records this use before it
	// calls Image: then either the deletion finds the record, or Image returns RESOURCE_BUSY.
	Image(ctx context.Context, project writ.ProjectID, image writ.Ref) (Image, error)
}

// Image is a downloaded file with a verified digest.
type Image struct {
	Path   string // path of the file: a disk, kernel or initramfs, or an OCI archive
	Format string // as in catalog.Image; "raw" after conversion
	SHA256 string // of the downloaded file, in hex
	Bytes  int64  // size of the file at Path
}

// CheckFormat returns ARGUMENTS_INVALID if an argument of an operation does not accept the format of an image.
func CheckFormat(operation, argument string, project writ.ProjectID, ref writ.Ref, image Image) error {
	o, known := catalog.Lookup(operation)
	if !known {
		return nil
	}
	field, known := o.Args.Field(argument)
	if !known {
		return nil
	}
	if err := catalog.WrongFormat(field,
		writ.ResourceID{Project: project, Kind: writ.KindImage, Name: ref.Name}, image.Format); err != nil {
		return err
	}
	return nil
}

// Volumes provides the volumes on this host.
type Volumes interface {
	// Volume returns a complete volume. It returns the same errors as Images.Image.
	Volume(ctx context.Context, project writ.ProjectID, volume writ.Ref) (Volume, error)
}

// Volume is a directory that outlives the resources that use it.
type Volume struct {
	UID     writ.UID
	Dir     string // absolute path
	SizeGiB int64
}

// Users lists the users of volumes. The volume driver and drivers that use volumes call every implementation before
// they remove, attach or change a volume.
type Users interface {
	// Users returns all current users of a volume, sorted by UID.
	Users(ctx context.Context, volume writ.UID) ([]User, error)
}

// User is a resource that uses a volume.
type User struct {
	Owner
	// Running reports whether the user may have files of the volume open, or may restart by itself because it was not
	// stopped.
	Running bool
}

// Unused returns RESOURCE_BUSY, with the name of the user, if any resource uses a volume, running or not.
func Unused(ctx context.Context, volume Owner, all []Users) error {
	return firstObjection(ctx, volume, all, func(u User) error {
		return catalog.VolumeInUse(u.Resource, volume.Resource)
	})
}

// Idle returns RESOURCE_BUSY, with the name of the user, if a running resource uses a volume.
func Idle(ctx context.Context, volume Owner, all []Users) error {
	return firstObjection(ctx, volume, all, func(u User) error {
		if !u.Running {
			return nil
		}
		return writ.Errorf(writ.CodeResourceBusy, "%s uses the %s and is not stopped", u.Resource, volume.Resource).
			WithHint("stop it with %s.stop, and start it when the volume is restored", u.Resource.Kind)
	})
}

// firstObjection calls `object` for each user of a volume and returns its first error.
func firstObjection(ctx context.Context, volume Owner, all []Users, object func(User) error) error {
	for _, some := range all {
		users, err := some.Users(ctx, volume.UID)
		if err != nil {
			return err
		}
		for _, u := range users {
			if err := object(u); err != nil {
				return err
			}
		}
	}
	return nil
}

// ImageUsers lists the users of images. The image driver calls every implementation before it deletes an image.
type ImageUsers interface {
	// ImageUsers returns all resources that could not start again without an image, sorted by UID. A resource that has
	// its own copy of the image, such as a volume, is not among them.
	ImageUsers(ctx context.Context, image Owner) ([]Owner, error)
}

// UnusedImage returns RESOURCE_BUSY, with the name of the user, if any resource needs an image.
func UnusedImage(ctx context.Context, image Owner, all []ImageUsers) error {
	for _, some := range all {
		users, err := some.ImageUsers(ctx, image)
		if err != nil {
			return err
		}
		for _, u := range users {
			return writ.Errorf(writ.CodeResourceBusy, "%s uses the %s and cannot start without it", u.Resource,
				image.Resource).
				WithHint("delete the %s first", u.Resource)
		}
	}
	return nil
}

// Means reports whether a handle or name in the arguments of a project's resource refers to this owner.
func (o Owner) Means(project writ.ProjectID, given writ.Ref) bool {
	return o.Resource.Project == project && o.Resource.Name == given.Name && (given.UID == "" || given.UID == o.UID)
}

// UsersOfImage returns the resources whose records refer to an image, sorted by UID. `uses` reports whether a record
// refers to it. A damaged record of the project, or of an unknown project, results in RECORD_DAMAGED. Records of other
// projects are ignored, because their resources cannot use the image.
func (rs *Records[T]) UsersOfImage(image Owner, uses func(*Record[T]) (bool, error)) ([]Owner, error) {
	records, damaged, err := rs.List()
	if err != nil {
		return nil, err
	}
	if hidden := DamagedOf(image.Resource.Project, damaged); len(hidden) > 0 {
		return nil, hidden[0].Hides(writ.KindImage)
	}
	var all []Owner
	for _, r := range records {
		if r.Resource.Project != image.Resource.Project {
			continue
		}
		has, err := uses(r)
		if err != nil {
			return nil, err
		}
		if has {
			all = append(all, Owner{Resource: r.Resource, UID: r.UID})
		}
	}
	slices.SortFunc(all, func(a, b Owner) int { return cmp.Compare(a.UID, b.UID) })
	return all, nil
}

// DiskName is the file in a volume that machines use as their disk. A volume created from an image contains this file.
// In other volumes, the first machine creates the file, sparse and with the size of the volume.
const DiskName = "disk.raw"

// ValidTree returns ARGUMENTS_INVALID for a name of a tree or snapshot that would lead to another directory.
func ValidTree(name string) error {
	if name == "." || !filepath.IsLocal(name) || filepath.Base(name) != name {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%q is not a valid name for a tree or snapshot", name)
	}
	return nil
}

// UnknownTree returns the error for a tree that is not on this host.
func UnknownTree(name string) error {
	return writ.Errorf(writ.CodeResourceUnknown, "this node has no tree %s", name)
}

// Trees manages private directories of drivers. Each tree has a name, a size limit where the host supports one, and
// snapshots. Names come from writ.ResourceID.HostName, or are words that cannot be host names. Different trees may be
// used concurrently.
type Trees interface {
	// About returns the kind of the trees ("btrfs") and a sentence about their features.
	About() (kind, detail string)
	// Path returns the directory of a tree, whether it exists or not.
	Path(name string) string
	// Room returns QUOTA_EXCEEDED, with the sizes, if a tree with this bound would exceed the project's share of the
	// disk. Make and Copy check the same before they create anything. Trees under construction are included.
	Room(ctx context.Context, name string, bound Bound) error
	// Make creates a tree, or raises its limit to the bound, and returns its directory. It never lowers the limit.
	Make(ctx context.Context, name string, bound Bound) (dir string, err error)
	// Copy creates a tree with the content of the tree `from`, or of one of its snapshots if snapshot is not empty. The
	// tree must not exist. If Copy fails, the caller must remove the unfinished tree.
	Copy(ctx context.Context, name string, bound Bound, from, snapshot string) (dir string, err error)
	// Keep compares a tree with bound, the bound of the last Make. It repairs differences where possible and returns
	// them.
	Keep(ctx context.Context, name string, bound Bound) ([]Drift, error)
	// Snapshot creates a snapshot of a tree. An existing snapshot of that name stays unchanged; a snapshot that was
	// interrupted is finished. The caller ensures that no process writes to the tree until the snapshot exists.
	Snapshot(ctx context.Context, name, snapshot string) error
	// Restore resets a tree to a snapshot and keeps the snapshot. Processes must reopen the files of the tree.
	Restore(ctx context.Context, name, snapshot string) error
	// View returns a directory to read from: a snapshot, or the current content if snapshot is empty. If the host takes
	// snapshots instantly, the directory of the current content is a temporary snapshot of it. The caller releases the
	// directory with done.
	View(ctx context.Context, name, snapshot string) (dir string, done func() error, err error)
	// Snapshots returns the sorted names of a tree's snapshots. For a missing tree it returns an empty list.
	Snapshots(ctx context.Context, name string) ([]string, error)
	// RemoveSnapshot removes a snapshot. A missing snapshot is not an error.
	RemoveSnapshot(ctx context.Context, name, snapshot string) error
	// Remove removes a tree and its snapshots. A missing tree is not an error.
	Remove(ctx context.Context, name string) error
	// Remedy returns the shell command that does the same as Remove; see Orphan.
	Remedy(name string) string
	// List returns the sorted names of all trees, including unfinished ones.
	List(ctx context.Context) ([]string, error)
	// Clone copies a file on this host to a path that does not exist, and shares blocks where the file system supports
	// that. The copy has at least size bytes, extended with zeros, and is synced.
	Clone(ctx context.Context, from, to string, size int64) error
}

// Bound is the size limit of a tree and the project that is charged for it.
type Bound struct {
	Bytes   int64          // 0 means unlimited
	Project writ.ProjectID // project whose share of the disk the tree uses; empty for none
}

// Networks provides the networks on this host.
type Networks interface {
	// Taps creates one tap with a packet filter on each network for a machine, and returns the ports in the same order.
	// If a network is missing, it returns RESOURCE_UNKNOWN with the name of that network.
	Taps(ctx context.Context, owner Owner, networks []writ.Ref) ([]Port, error)
	// Namespace creates a network namespace with a configured interface on each network. It returns the path of the
	// namespace's file, and the ports in the order of the networks. Without networks, the namespace has only a loopback
	// interface.
	Namespace(ctx context.Context, owner Owner, networks []writ.Ref) (path string, ports []Port, err error)
	// Release removes all taps, namespaces, addresses and rules of an owner. An owner without any is not an error.
	Release(ctx context.Context, owner Owner) error
	// Owners returns all owners of taps or namespaces, sorted by UID, including the resources of other drivers.
	Owners(ctx context.Context) ([]Owner, error)
}

// Traffic is an optional interface of Networks that counts the traffic of owners.
type Traffic interface {
	// Traffic returns the bytes that an owner received and sent through its ports since the ports were created. Both are
	// zero for an owner without ports.
	Traffic(ctx context.Context, owner Owner) (received, sent int64, err error)
}

// Port is a connection to a network.
type Port struct {
	Network writ.ResourceID
	Device  string // tap on the host, or interface in the namespace
	MAC     net.HardwareAddr
	IPv6    netip.Prefix // address, and the range that is reached without a gateway
	Gateway netip.Addr   // router for all other addresses of the overlay
	IPv4    netip.Prefix // zero if the network has no IPv4
	Router  netip.Addr   // gateway for IPv4; zero if the network has no IPv4
	MTU     int          // bytes
	// Nameservers are the DNS servers that this port can reach.
	Nameservers []netip.Addr `json:",omitempty"`
}

// IPv4Of returns the IPv4 addresses of ports, in order. It skips ports without an IPv4 address.
func IPv4Of(ports []Port) []string {
	var all []string
	for _, p := range ports {
		if p.IPv4.IsValid() {
			all = append(all, p.IPv4.Addr().String())
		}
	}
	return all
}

// FreeIPv4 returns an address of a range that taken does not reject; ok is false if taken rejects all of them. `first`
// selects the address that is tried first. FreeIPv4 never returns the address of the range, the router's address after
// it, or the broadcast address.
func FreeIPv4(prefix netip.Prefix, first uint32, taken func(netip.Addr) bool) (addr netip.Addr, ok bool) {
	start := binary.BigEndian.Uint32(prefix.Masked().Addr().AsSlice())
	room := uint32(1)<<(32-prefix.Bits()) - 3
	for i := range room {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], start+2+(first%room+i)%room)
		if addr := netip.AddrFrom4(a); !taken(addr) {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// Overlay provides this host's addresses in the overlay network.
type Overlay interface {
	// Subnet returns the /64 range that the overlay routes to this host. It never changes.
	Subnet(ctx context.Context) (netip.Prefix, error)
	// Address returns the host's own address in the overlay, which is in Subnet.
	Address(ctx context.Context) (netip.Addr, error)
}
