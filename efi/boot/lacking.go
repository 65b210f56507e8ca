package boot

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"writ"
)

// deviceClass is a kind of device, by the beginnings of its class on a PCI bus and of its modalias on a virtio bus.
type deviceClass struct {
	name        string
	pci, virtio []string
}

var (
	networkDevices = deviceClass{"network card", []string{"0x0200"}, []string{"virtio:d00000001v"}}
	diskDevices    = deviceClass{"disk controller", []string{"0x0100", "0x0101", "0x0104", "0x0106", "0x0107", "0x0108"}, []string{"virtio:d00000002v", "virtio:d00000008v"}}
)

// undriven names the devices of a class that no driver serves: the image lacks it, or it does not work. sys is /sys.
func undriven(sys fs.FS, class deviceClass) (all []string) {
	for _, bus := range []struct {
		dir, file string
		begins    []string
	}{{"bus/pci/devices", "class", class.pci}, {"bus/virtio/devices", "modalias", class.virtio}} {
		devices, _ := fs.ReadDir(sys, bus.dir) // there may be no such bus
		for _, d := range devices {
			at := path.Join(bus.dir, d.Name())
			is := func(begin string) bool { return strings.HasPrefix(attribute(sys, at, bus.file), begin) }
			if _, err := fs.Stat(sys, path.Join(at, "driver")); err == nil || !slices.ContainsFunc(bus.begins, is) {
				continue
			}
			id := strings.TrimPrefix(attribute(sys, at, "vendor"), "0x") + ":" + strings.TrimPrefix(attribute(sys, at, "device"), "0x")
			all = append(all, fmt.Sprintf("the %s %s (%s) has no driver", class.name, id, d.Name()))
		}
	}
	return all
}

func attribute(sys fs.FS, dir, name string) string {
	text, _ := fs.ReadFile(sys, path.Join(dir, name)) // a device may go while it is looked at
	return strings.TrimSpace(string(text))
}

// firmwarePattern finds what kernels say of a firmware file that they do not find: Debian's first, then that of others. The name of the device is
// before it.
var firmwarePattern = regexp.MustCompile(`(?:firmware: failed to load (\S+) \(-2\)|Direct firmware load for (\S+) failed with error -2)`)

// missingFirmware names the firmware files that a kernel did not find, as its log says.
func missingFirmware(log string) (all []string) {
	for _, found := range firmwarePattern.FindAllStringSubmatch(log, -1) {
		if file := found[1] + found[2]; !slices.Contains(all, file) {
			all = append(all, file)
		}
	}
	return all
}

// lacking says what a machine lacks for devices of a class, "" if nothing is known to be.
func lacking(sys fs.FS, log string, class deviceClass) string {
	all := undriven(sys, class)
	if files := missingFirmware(log); len(files) > 0 {
		all = append(all, "the image lacks the firmware "+strings.Join(files, " "))
	}
	return strings.Join(all, "; ")
}

// noCarrier is the state of a card without a cable.
const noCarrier = "has no carrier"

// addressless is a machine without an address.
type addressless struct {
	cards     int
	bare      int    // of them, without a cable
	lacks     string // what the image lacks for network cards, "" if nothing is known to be
	unmatched string // "" unless no card is the one of the settings
	waits     string // what the cards wait for
	next      string // what to do about a card that cannot be used, "" if all can
}

// trouble says why the machine has no address yet, and what to do.
func (a addressless) trouble() error {
	text := a.waits
	for _, more := range []string{a.unmatched, a.lacks} {
		if more != "" {
			text += "; " + more
		}
	}
	e := writ.Errorf(writ.CodeUnreachable, "no address yet: %s", text)
	switch {
	case a.next != "":
		return e.WithHint("%s", a.next)
	case a.lacks != "" && a.cards == 0:
		return e.WithHint("build the image with the driver (--module), its firmware (--packages), or another kernel")
	case a.lacks != "" && a.cards == a.bare: // the kernel may miss firmware of something else
		return e.WithHint("plug in the cable, and look at the port of the switch; or build the image with the driver (--module), its firmware (--packages), or another kernel")
	case a.cards == 0:
		return e.WithHint("attach a network card that the kernel of the image knows")
	case a.cards == a.bare:
		return e.WithHint("plug in the cable, and look at the port of the switch")
	case a.unmatched != "":
		return e.WithHint("correct %sinterface: its card gets the address and the VLAN of the settings", prefix)
	default:
		return e.WithHint("check that a DHCP server answers in this network (VLAN), or give the machine writ.address")
	}
}
