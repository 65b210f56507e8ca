// Package hardware reads the properties of a machine from the files of its kernel: product, processor, disks and
// network interfaces. It needs no privileges. Without root, it omits values that only root can read. The package must
// not depend on how the properties are sent.
package hardware

import (
	"cmp"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/clip"
	"writ/supervisor/nodes"
)

// Machine is the source of a machine's properties.
type Machine struct {
	Root fs.FS // the file system; /sys, /proc and /etc are read
	// Addresses returns the addresses of a network interface; nil if unavailable.
	Addresses func(name string) []netip.Prefix
}

// Here returns the machine of this process.
func Here() Machine { return Machine{Root: os.DirFS("/"), Addresses: addressesHere} }

// Host returns the current properties. Unavailable properties are omitted: for example, a container has no disks.
func (m Machine) Host() writ.Host {
	f := files{m.Root}
	release := settings(cmp.Or(f.read("etc/os-release"), f.read("usr/lib/os-release")))
	h := writ.Host{
		OS: word(release["PRETTY_NAME"]), Kernel: word(f.read("proc/sys/kernel/osrelease")),
		Vendor: f.dmi("sys_vendor"), Product: f.dmi("product_name"), Serial: m.Serial(),
		CPU: word(f.field("proc/cpuinfo", "model name")), MemoryMiB: f.memoryMiB(), Booted: f.booted(),
		Disks: blockDevicesOf(f).disks(), NICs: nics(f, m.Addresses),
	}
	if release["IMAGE_ID"] == ImageID {
		h.Image = word(release["IMAGE_VERSION"])
	}
	return h
}

// ImageID is the IMAGE_ID in os-release on a machine that was started from a node image.
const ImageID = "writ-node"

// Serial returns the serial number of the machine, or "" if it is missing or unreadable.
func (m Machine) Serial() string { return files{m.Root}.dmi("product_serial") }

// dmi returns a value from the firmware. Placeholders that the manufacturer left are omitted.
func (f files) dmi(name string) string {
	text := word(f.read("sys/class/dmi/id/" + name))
	if identity.Placeholder(text) {
		return ""
	}
	return text
}

// memoryMiB returns the memory that the kernel manages, from the line "MemTotal: 24033520 kB".
func (f files) memoryMiB() int64 {
	kib, err := strconv.ParseInt(strings.TrimSuffix(f.field("proc/meminfo", "MemTotal"), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kib >> 10
}

// booted returns the boot time, from the line "btime 1764140400", or zero if it is missing.
func (f files) booted() time.Time {
	for line := range strings.Lines(f.read("proc/stat")) {
		if text, ok := strings.CutPrefix(line, "btime "); ok {
			if seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
				return time.Unix(seconds, 0).UTC()
			}
		}
	}
	return time.Time{}
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
