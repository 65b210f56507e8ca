package sal

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	"writ"
)

// What drivers need of each other on one host. They do not know each other: each asks for what it needs by one of these, and whoever
// wires a node together hands it over. All of it is "make it so", as operations are, and an error is a *writ.Error.

// Owner is for whom something is held: the machine, container or database that uses it. What a UID holds is found again after a crash
// by that UID alone.
type Owner struct {
	Resource writ.ResourceID
	UID      writ.UID
	IDs      uint32 // the first of the users of the host that it has for itself, 0 if it has none; asked for with a namespace, and never told
}

// Images are the images on this host.
type Images interface {
	// Image returns an image of a project that is there as a whole. RESOURCE_UNKNOWN if there is none of the name, RESOURCE_CONFLICT if
	// the handle means another one, RESOURCE_BUSY if it is just being deleted. Its file does not change and stays until the image is deleted:
	// whoever needs it for longer writes that down first and then looks for it, so that one of the two sees the other.
	Image(ctx context.Context, project writ.ProjectID, image writ.Ref) (Image, error)
}

// Image is a file that was fetched and whose digest was right.
type Image struct {
	Path   string // of the file: a disk, kernel or initramfs as it is, or an OCI archive
	Format string // as catalog.Image has it; "raw" if it was converted to that
	SHA256 string // of what was fetched, in hex
	Bytes  int64  // of the file
}

// Volumes are the volumes on this host.
type Volumes interface {
	// Volume returns a volume that is there as a whole, with the errors of Images.
	Volume(ctx context.Context, project writ.ProjectID, volume writ.Ref) (Volume, error)
}

// Volume is a directory that outlives whoever uses it.
type Volume struct {
	UID     writ.UID
	Dir     string // an absolute path
	SizeGiB int64
}

// Users can say who uses a volume. Whoever would take a volume away or change what is in it under their feet asks all of them first.
type Users interface {
	// Users are all that have a volume now, sorted by UID.
	Users(ctx context.Context, volume writ.UID) ([]User, error)
}

// User has a volume.
type User struct {
	Owner
	// Running says that it may have files of the volume open, or that it comes back by itself: it was not stopped.
	Running bool
}

// Unused returns an error if anybody has a volume, whether it runs or not: RESOURCE_BUSY, which names who has and who may be
// about to go.
func Unused(ctx context.Context, volume Owner, all []Users) error {
	return without(ctx, volume, all, func(u User) error {
		return writ.Errorf(writ.CodeResourceBusy, "%s has the %s", u.Resource, volume.Resource).
			WithHint("detach it there, or delete the %s first", u.Resource)
	})
}

// Idle returns an error if anybody that runs has a volume: RESOURCE_BUSY, which names who has.
func Idle(ctx context.Context, volume Owner, all []Users) error {
	return without(ctx, volume, all, func(u User) error {
		if !u.Running {
			return nil
		}
		return writ.Errorf(writ.CodeResourceBusy, "%s has the %s, and it was not stopped", u.Resource, volume.Resource).
			WithHint("%s.stop it, and start it when the volume is back", u.Resource.Kind)
	})
}

// without returns the first objection to a user of a volume.
func without(ctx context.Context, volume Owner, all []Users, object func(User) error) error {
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

// ImageUsers can say who needs an image. The driver of images asks all of them before it takes one away.
type ImageUsers interface {
	// ImageUsers are all that would not start again without an image, sorted by UID. What was copied of it for good, as into a volume, does
	// not need it.
	ImageUsers(ctx context.Context, image Owner) ([]Owner, error)
}

// UnusedImage returns an error if anybody needs an image: RESOURCE_BUSY, which names who does.
func UnusedImage(ctx context.Context, image Owner, all []ImageUsers) error {
	for _, some := range all {
		users, err := some.ImageUsers(ctx, image)
		if err != nil {
			return err
		}
		for _, u := range users {
			return writ.Errorf(writ.CodeResourceBusy, "%s has the %s, and does not start without it", u.Resource, image.Resource).
				WithHint("delete the %s first", u.Resource)
		}
	}
	return nil
}

// Means reports whether a handle or name that a resource of a project was given means this one.
func (o Owner) Means(project writ.ProjectID, given writ.Ref) bool {
	return o.Resource.Project == project && o.Resource.Name == given.Name && (given.UID == "" || given.UID == o.UID)
}

// UsersOfImage are the resources with a record that have an image, by uid. What another project has means no image of this one, and neither
// its records nor damage to them are looked at.
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

// DiskName is the file in a volume that machines see as their disk. A volume that was filled with an image has it; in others the first
// machine that gets the volume makes it, sparse and as big as the volume.
const DiskName = "disk.raw"

// ValidTree refuses names of trees and snapshots that would lead elsewhere.
func ValidTree(name string) error {
	if name == "." || !filepath.IsLocal(name) || filepath.Base(name) != name {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%q is no name for a tree or snapshot", name)
	}
	return nil
}

// UnknownTree is the error about a tree that is not on this host.
func UnknownTree(name string) error {
	return writ.Errorf(writ.CodeResourceUnknown, "this node has no tree %s", name)
}

// Trees are directories that drivers keep for themselves: each has a name, is bounded where the host can do that, and can be put back
// to an earlier moment. Names are those of writ.ResourceID.HostName, or words that such a name cannot be. Different trees may be used at
// the same time.
type Trees interface {
	// About says what kind of trees these are, "btrfs", and in a sentence what they can do.
	About() (kind, detail string)
	// Path is the directory of a tree, if there is one of the name.
	Path(name string) string
	// Room returns QUOTA_EXCEEDED, with the numbers, if a tree of such a bound would let its project have more of the disk than it may. Make and
	// Copy do so too, before they make anything; what is just being made counts.
	Room(ctx context.Context, name string, bound Bound) error
	// Make makes a tree, or lets it grow to a bound, and returns its directory. It never shrinks.
	Make(ctx context.Context, name string, bound Bound) (dir string, err error)
	// Copy makes a tree, of which there is none yet, with what another one holds, or a snapshot of that if it names one. A copy that was
	// not finished has to be removed by the caller.
	Copy(ctx context.Context, name string, bound Bound, from, snapshot string) (dir string, err error)
	// Keep holds a tree against what Make was asked for last, and mends what it can.
	Keep(ctx context.Context, name string, bound Bound) ([]Drift, error)
	// Snapshot keeps what the tree holds now; one of that name stays as it is. The caller has made sure that nothing writes.
	Snapshot(ctx context.Context, name, snapshot string) error
	// Restore puts the tree back to a snapshot, which stays. Whoever had files of it open has to open them anew.
	Restore(ctx context.Context, name, snapshot string) error
	// View returns a directory to read from: a snapshot of a tree or, if none is named, what the tree holds now, which does not change any
	// more where snapshots take no time. The caller says when it is done with it.
	View(ctx context.Context, name, snapshot string) (dir string, done func() error, err error)
	// Snapshots are the names of a tree's snapshots, sorted; none if there is no tree.
	Snapshots(ctx context.Context, name string) ([]string, error)
	// RemoveSnapshot removes a snapshot; one that is not there is no error.
	RemoveSnapshot(ctx context.Context, name, snapshot string) error
	// Remove removes a tree with its snapshots; one that is not there is no error.
	Remove(ctx context.Context, name string) error
	// Remedy is Remove as a line for a shell of the host, see Orphan.
	Remedy(name string) string
	// List returns the names of all trees, sorted, also of those that were never finished.
	List(ctx context.Context) ([]string, error)
	// Clone copies a file to a path that does not exist, both on this host's disk, sharing its blocks where the disk can do that. The
	// copy has at least size bytes; what is behind the original's end reads as zeros. It is synced.
	Clone(ctx context.Context, from, to string, size int64) error
}

// Bound is how much a tree may hold, and for whom it counts.
type Bound struct {
	Bytes   int64          // 0 is unbounded
	Project writ.ProjectID // whose share of the disk it takes from; nobody's if empty
}

// Networks are the networks on this host.
type Networks interface {
	// Taps makes a tap on each network for a machine, in order, down to the rules of packets. RESOURCE_UNKNOWN names a network that is
	// not there.
	Taps(ctx context.Context, owner Owner, networks []writ.Ref) ([]Port, error)
	// Namespace makes a network namespace with an interface on each network, in order, configured and up. Without networks it has a
	// loopback interface only. It returns the path of the namespace's file.
	Namespace(ctx context.Context, owner Owner, networks []writ.Ref) (path string, ports []Port, err error)
	// Release takes away every tap, namespace, address and rule of an owner; nothing is no error.
	Release(ctx context.Context, owner Owner) error
	// Owners are all for whom something is held, sorted by UID, whoever asked for it.
	Owners(ctx context.Context) ([]Owner, error)
}

// Traffic is what Networks may also be: it counts what owners move.
type Traffic interface {
	// Traffic returns how many bytes an owner has received and sent at its ports since they were made; zero if it has none.
	Traffic(ctx context.Context, owner Owner) (received, sent int64, err error)
}

// Port is a place on a network.
type Port struct {
	Network writ.ResourceID
	Device  string // the tap on the host, or the interface in the namespace
	MAC     net.HardwareAddr
	IPv6    netip.Prefix // the address, and the range that is reached without a gateway
	Gateway netip.Addr   // for what is behind: everything of the overlay
	IPv4    netip.Prefix // the zero value if the network has no IPv4
	Router  netip.Addr   // for IPv4, as Gateway; the zero value likewise
	MTU     int          // bytes
	// Nameservers are whom to ask for names; there may be none that this port reaches.
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

// Overlay is this host's place in the overlay network.
type Overlay interface {
	// Subnet is the range of addresses that the overlay leads to this host, a /64. It never changes.
	Subnet(ctx context.Context) (netip.Prefix, error)
	// Address is the host's own address in the overlay, in Subnet.
	Address(ctx context.Context) (netip.Addr, error)
}
