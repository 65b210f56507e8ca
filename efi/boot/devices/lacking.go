package devices

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"writ/internal/lazyregexp"
)

// Class is a kind of device, identified by prefixes of its PCI class and of its virtio modalias.
type Class struct {
	name        string
	pci, virtio []string
}

// NetworkCards are the Ethernet cards of PCI and virtio.
var NetworkCards = Class{"network card", []string{"0x0200"}, []string{"virtio:d00000001v"}}

// DiskControllers are the controllers of SCSI, IDE, RAID, SATA, SAS, NVMe and virtio disks.
var DiskControllers = Class{
	"disk controller", []string{"0x0100", "0x0101", "0x0104", "0x0106", "0x0107", "0x0108"},
	[]string{"virtio:d00000002v", "virtio:d00000008v"},
}

// undriven lists the devices of a class without a driver: the driver is missing from the image, or failed. sys is /sys.
func undriven(sys fs.FS, class Class) (all []string) {
	for _, bus := range []struct {
		dir, file string
		begins    []string
	}{{"bus/pci/devices", "class", class.pci}, {"bus/virtio/devices", "modalias", class.virtio}} {
		devices, _ := fs.ReadDir(sys, bus.dir) // the bus may be missing
		for _, d := range devices {
			at := path.Join(bus.dir, d.Name())
			is := func(begin string) bool { return strings.HasPrefix(attribute(sys, at, bus.file), begin) }
			if _, err := fs.Stat(sys, path.Join(at, "driver")); err == nil || !slices.ContainsFunc(bus.begins, is) {
				continue
			}
			id := strings.TrimPrefix(attribute(sys, at, "vendor"),
				"0x") + ":" + strings.TrimPrefix(attribute(sys, at, "device"), "0x")
			all = append(all, fmt.Sprintf("the %s %s (%s) has no driver", class.name, id, d.Name()))
		}
	}
	return all
}

func attribute(sys fs.FS, dir, name string) string {
	text, _ := fs.ReadFile(sys, path.Join(dir, name)) // a device may vanish meanwhile
	return strings.TrimSpace(string(text))
}

// firmwarePattern matches the kernel's messages about missing firmware files: first the form of Debian's kernel, then
// the form of the upstream kernel. In the log, the name of the device precedes it.
var firmwarePattern = lazyregexp.New(
	`(?:firmware: failed to load (\S+) \(-2\)|Direct firmware load for (\S+) failed with error -2)`)

// missingFirmware returns the firmware files that the kernel log reports as missing.
func missingFirmware(log string) (all []string) {
	for _, found := range firmwarePattern.FindAllStringSubmatch(log, -1) {
		if file := found[1] + found[2]; !slices.Contains(all, file) {
			all = append(all, file)
		}
	}
	return all
}

// lacking describes the missing drivers and firmware of a device class, "" if nothing is known.
func lacking(sys fs.FS, log string, class Class) string {
	all := undriven(sys, class)
	if files := missingFirmware(log); len(files) > 0 {
		all = append(all, "the image lacks the firmware "+strings.Join(files, " "))
	}
	return strings.Join(all, "; ")
}
