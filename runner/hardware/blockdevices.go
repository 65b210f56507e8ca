package hardware

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	"writ"
	"writ/internal/diskserial"
	"writ/supervisor/nodes"
)

// virtual lists the name prefixes of block devices that do not count as disks of a machine: virtual, temporary or
// removable devices.
var virtual = []string{"loop", "ram", "zram", "fd", "sr", "nbd", "dm-"}

// blockDevices reads the disks of a machine and their partitions.
type blockDevices struct {
	files
	mounted map[string]string // mount points
	labels  map[string]string // labels of file systems, by device name
}

func blockDevicesOf(f files) *blockDevices {
	return &blockDevices{files: f, mounted: mountPoints(f), labels: labelsOf(f)}
}

// disks returns the disks, without partitions.
func (b *blockDevices) disks() (all []writ.HostDisk) {
	parts := 0
	for _, name := range b.list("sys/block") {
		at := path.Join("sys/block", name)
		size := b.number(at+"/size") * 512 // in sectors, which are 512 bytes here for every disk
		if size <= 0 ||
			slices.ContainsFunc(virtual, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		if len(all) == nodes.MaxDisks {
			break
		}
		d := writ.HostDisk{
			Name: word(name), Bytes: size, Model: word(cmp.Or(b.read(at+"/device/model"), b.read(at+"/device/name"))),
			Serial: word(diskserial.Of(b.FS, at)), Rotational: b.read(at+"/queue/rotational") == "1",
		}
		for _, part := range append([]string{"."}, b.list(at)...) {
			if p, ok := b.part(at, name, part); ok && parts < nodes.MaxParts {
				parts++
				d.Parts = append(d.Parts, p)
			}
		}
		all = append(all, d)
	}
	return all
}

// part returns a partition of a disk, or for "." the disk itself if it is mounted or labelled.
func (b *blockDevices) part(at, disk, name string) (p writ.HostPart, ok bool) {
	device := name
	if name == "." {
		device = disk
	} else if !b.exists(path.Join(at, name, "partition")) {
		return p, false
	}
	p = writ.HostPart{Name: word(device), Bytes: b.number(path.Join(at, name, "size")) * 512}
	p.Mounted = word(cmp.Or(b.mounted[b.read(path.Join(at, name, "dev"))], b.mounted["/dev/"+device]))
	label := b.labels[device]
	if label == "" { // the name of the partition, which the kernel reads itself
		label = settings(b.read(path.Join(at, name, "uevent")))["PARTNAME"]
	}
	p.Label = word(label)
	return p, name != "." || p.Mounted != "" || p.Label != ""
}

// mountPoints returns the mount points of block devices, by device number and by device name. Of several mount points
// of a device it returns the shortest, because containers temporarily mount parts of the same disk again.
func mountPoints(f files) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(f.read("proc/self/mountinfo")) {
		before, after, ok := strings.Cut(line, " - ")
		fields, source := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(source) < 2 {
			continue
		}
		for _, key := range []string{fields[2], source[1]} { // btrfs shows its own number, but the name of its disk
			if known, ok := all[key]; !ok || len(fields[4]) < len(known) {
				all[key] = fields[4]
			}
		}
	}
	return all
}

// labelsOf returns the labels of file systems by device name. They are available if a service such as udev has read them.
func labelsOf(f files) map[string]string {
	const dir = "dev/disk/by-label"
	all := make(map[string]string)
	for _, label := range f.list(dir) {
		if target, err := fs.ReadLink(f.FS, path.Join(dir, label)); err == nil {
			all[path.Base(target)] = strings.ReplaceAll(label, `\x20`, " ")
		}
	}
	return all
}
