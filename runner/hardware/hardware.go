// Package hardware reads the properties of a machine from the files of its kernel: product, processor, disks and
// network interfaces. It needs no privileges, but omits values that only root can read. It must not know the recipient
// of the data.
package hardware

import (
	"cmp"
	"io"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/clip"
	"writ/internal/diskserial"
	"writ/supervisor/nodes"
)

// Machine is the source of a machine's properties.
type Machine struct {
	Root fs.FS // the file system; /sys, /proc and /etc are read
	// Addresses returns the addresses of a network interface; nil if unavailable.
	Addresses func(name string) []netip.Prefix
}

// mostRead limits the bytes read from a file. The files are much smaller, or have the relevant part at the beginning.
const mostRead = 256 << 10

// Host returns the current properties. Unavailable ones are omitted: a virtual machine has no product, and a container
// no disks.
func (m Machine) Host() writ.Host {
	release := settings(cmp.Or(m.read("etc/os-release"), m.read("usr/lib/os-release")))
	h := writ.Host{
		OS: word(release["PRETTY_NAME"]), Kernel: word(m.read("proc/sys/kernel/osrelease")),
		Vendor: m.dmi("sys_vendor"), Product: m.dmi("product_name"), Serial: m.Serial(),
		CPU: word(m.field("proc/cpuinfo", "model name")), MemoryMiB: m.memoryMiB(), Booted: m.booted(),
		Disks: m.disks(), NICs: m.nics(),
	}
	if release["IMAGE_ID"] == ImageID {
		h.Image = word(release["IMAGE_VERSION"])
	}
	return h
}

// ImageID is the IMAGE_ID in os-release on a machine that was started from a node image.
const ImageID = "writ-node"

// read returns the first bytes of a file, or "" if it cannot be read: many device files exist but return an error.
func (m Machine) read(name string) string {
	file, err := m.Root.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostRead))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// list returns the sorted names in a directory.
func (m Machine) list(dir string) (names []string) {
	entries, _ := fs.ReadDir(m.Root, dir) // entries before an error count
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (m Machine) exists(name string) bool {
	_, err := fs.Stat(m.Root, name)
	return err == nil
}

func (m Machine) number(name string) int64 {
	n, err := strconv.ParseInt(m.read(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// dmi returns a value from the firmware. Placeholders that the manufacturer left are omitted.
func (m Machine) dmi(name string) string {
	text := word(m.read("sys/class/dmi/id/" + name))
	if identity.Placeholder(text) {
		return ""
	}
	return text
}

// Serial returns the serial number of the machine, or "" if it is missing or unreadable.
func (m Machine) Serial() string { return m.dmi("product_serial") }

// field returns the first value of a name in a file with lines such as "name : value".
func (m Machine) field(file, name string) string {
	for line := range strings.Lines(m.read(file)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// memoryMiB returns the memory of the kernel, from "MemTotal: 24033520 kB".
func (m Machine) memoryMiB() int64 {
	kib, err := strconv.ParseInt(strings.TrimSuffix(m.field("proc/meminfo", "MemTotal"), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kib >> 10
}

// booted returns the boot time, from the line "btime 1764140400", or zero if it is missing.
func (m Machine) booted() time.Time {
	for line := range strings.Lines(m.read("proc/stat")) {
		if text, ok := strings.CutPrefix(line, "btime "); ok {
			if seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
				return time.Unix(seconds, 0).UTC()
			}
		}
	}
	return time.Time{}
}

// settings parses lines such as NAME="value", as in os-release(5).
func settings(text string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			all[name] = strings.Trim(value, `"'`)
		}
	}
	return all
}

// word sanitises a text for a report: one line of valid characters, within the limit of the supervisor.
func word(text string) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))), " ")
	return clip.Prefix(text, nodes.MaxHostWord)
}

// virtual are the name prefixes of block devices that are not disks of a machine, because they are temporary or hold
// removable media.
var virtual = []string{"loop", "ram", "zram", "fd", "sr", "nbd", "dm-"}

// disks returns the disks, without partitions.
func (m Machine) disks() (all []writ.HostDisk) {
	mounted, labels, parts := m.mounted(), m.labels(), 0
	for _, name := range m.list("sys/block") {
		at := path.Join("sys/block", name)
		size := m.number(at+"/size") * 512 // in sectors, which are 512 bytes here for every disk
		if size <= 0 ||
			slices.ContainsFunc(virtual, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		if len(all) == nodes.MaxDisks {
			break
		}
		d := writ.HostDisk{
			Name: word(name), Bytes: size, Model: word(cmp.Or(m.read(at+"/device/model"), m.read(at+"/device/name"))),
			Serial: word(diskserial.Of(m.Root, at)), Rotational: m.read(at+"/queue/rotational") == "1",
		}
		for _, part := range append([]string{"."}, m.list(at)...) {
			if p, ok := m.part(at, name, part, mounted, labels); ok && parts < nodes.MaxParts {
				parts++
				d.Parts = append(d.Parts, p)
			}
		}
		all = append(all, d)
	}
	return all
}

// part returns a partition of a disk, or for "." the disk itself if it is mounted or labelled.
func (m Machine) part(at, disk, name string, mounted, labels map[string]string) (p writ.HostPart, ok bool) {
	device := name
	if name == "." {
		device = disk
	} else if !m.exists(path.Join(at, name, "partition")) {
		return p, false
	}
	p = writ.HostPart{Name: word(device), Bytes: m.number(path.Join(at, name, "size")) * 512}
	p.Mounted = word(cmp.Or(mounted[m.read(path.Join(at, name, "dev"))], mounted["/dev/"+device]))
	label := labels[device]
	if label == "" { // the name of the partition, which the kernel reads itself
		label = settings(m.read(path.Join(at, name, "uevent")))["PARTNAME"]
	}
	p.Label = word(label)
	return p, name != "." || p.Mounted != "" || p.Label != ""
}

// mounted returns the mount points of block devices, by their numbers and by their names. Of several mount points it
// returns the shortest, because containers temporarily mount parts of the same disk again.
func (m Machine) mounted() map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(m.read("proc/self/mountinfo")) {
		before, after, ok := strings.Cut(line, " - ")
		fields, source := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(source) < 2 {
			continue
		}
		for _, key := range []string{fields[2], source[1]} { // btrfs has its own numbers, but the name of its disk
			if known, ok := all[key]; !ok || len(fields[4]) < len(known) {
				all[key] = fields[4]
			}
		}
	}
	return all
}

// labels returns the labels of file systems by device name. They are available if a service such as udev has read them.
func (m Machine) labels() map[string]string {
	const dir = "dev/disk/by-label"
	all := make(map[string]string)
	for _, label := range m.list(dir) {
		if target, err := fs.ReadLink(m.Root, path.Join(dir, label)); err == nil {
			all[path.Base(target)] = strings.ReplaceAll(label, `\x20`, " ")
		}
	}
	return all
}

// nics returns the network interfaces. Interfaces for guests, made by writ or other programs, are omitted: they have no
// device and are temporary.
func (m Machine) nics() (all []writ.HostNIC) {
	for _, name := range m.list("sys/class/net") {
		at := path.Join("sys/class/net", name)
		kind := settings(m.read(at + "/uevent"))["DEVTYPE"]
		if !m.exists(at+"/device") && kind != "bond" && kind != "vlan" {
			continue
		}
		if len(all) == nodes.MaxNICs {
			break
		}
		n := writ.HostNIC{
			Name: word(name), MAC: word(m.read(at + "/address")), Carrier: m.read(at+"/carrier") == "1",
			SpeedMbit: max(m.number(at+"/speed"), 0), Addresses: m.addresses(name),
		}
		if driver, err := fs.ReadLink(m.Root, at+"/device/driver"); err == nil {
			n.Driver = word(path.Base(driver))
		} else {
			n.Driver = word(kind)
		}
		all = append(all, n)
	}
	return all
}

// addresses returns the sorted addresses of a network interface.
func (m Machine) addresses(name string) (all []string) {
	if m.Addresses == nil {
		return nil
	}
	for _, address := range m.Addresses(name) {
		all = append(all, address.String())
	}
	slices.Sort(all)
	return all[:min(len(all), nodes.MaxAddresses)]
}
