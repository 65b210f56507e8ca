package vmm

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// bus is the PCI bus of a machine with its devices.
type bus struct {
	devices []*device
	counter int // for generated IDs
}

// lock locks all disks. After an error, some may be locked.
func (b *bus) lock() error {
	for _, d := range b.devices {
		if err := d.lock(); err != nil {
			return err
		}
	}
	return nil
}

// add gives a device a slot on the bus.
func (b *bus) add(id string) (*device, error) {
	for slot := 1; slot < maxPCIDevices; slot++ {
		if !slices.ContainsFunc(b.devices, func(d *device) bool { return d.slot == slot }) {
			d := &device{id: id, slot: slot}
			b.devices = append(b.devices, d)
			return d, nil
		}
	}
	return nil, chain{"Error from device manager", "Failed to find an available PCI device ID"}
}

// name returns the ID of a device, which it generates if none was given.
func (b *bus) name(prefix string, common *pciCommon) string {
	for common.ID == nil {
		id := fmt.Sprintf("%s%d", prefix, b.counter)
		b.counter++
		if b.find(id) == nil {
			common.ID = &id
		}
	}
	return *common.ID
}

func (b *bus) find(id string) *device {
	for _, d := range b.devices {
		if d.id == id {
			return d
		}
	}
	return nil
}

// drop removes a device from the bus.
func (b *bus) drop(d *device) {
	d.release()
	b.devices = slices.DeleteFunc(b.devices, func(other *device) bool { return other == d })
}

func (b *bus) release() {
	for _, d := range b.devices {
		d.release()
	}
}

// node is an entry of the device tree in vm.info.
type node struct {
	ID        string   `json:"id"`
	Resources []any    `json:"resources"`
	Children  []string `json:"children"`
	Parent    string   `json:"parent,omitempty"`
	BDF       string   `json:"pci_bdf,omitempty"`
}

func (b *bus) tree() map[string]node {
	tree := map[string]node{"__serial": {ID: "__serial", Resources: []any{}, Children: []string{}}}
	for _, d := range b.devices {
		pci := "_virtio-pci-" + d.id
		tree[d.id] = node{ID: d.id, Resources: []any{}, Children: []string{}, Parent: pci}
		tree[pci] = node{ID: pci, Resources: []any{}, Children: []string{d.id}, BDF: d.bdf()}
	}
	return tree
}

// device is a device on the machine's PCI bus.
type device struct {
	id   string
	slot int
	disk *diskConfig // at most one of disk and net is set
	net  *netConfig

	file *os.File // the locked disk, or the tap; nil after its release
	down bool     // removed, but not yet released by the guest
}

func (d *device) bdf() string { return fmt.Sprintf("0000:00:%02x.0", d.slot) }

// back and name return QEMU's names for the two sides of a device: the backend, and the device on the bus.
func (d *device) back() string { return fmt.Sprintf("back%d", d.slot) }

func (d *device) name() string { return fmt.Sprintf("front%d", d.slot) }

func (d *device) release() {
	if d.file != nil {
		_ = d.file.Close()
		d.file = nil
	}
}

// lock locks a disk for writing or reading. Other devices need no lock.
func (d *device) lock() error {
	if d.disk == nil {
		return nil
	}
	kind := "Write"
	if d.disk.ReadOnly {
		kind = "Read"
	}
	err := lockDisk(d.file, d.disk.ReadOnly)
	if err == nil {
		return nil
	}
	why := err.Error()
	if errors.Is(err, errLocked) {
		why = "The file is already locked"
	}
	return chain{
		"Cannot lock images of all block devices", "Failed to get " + kind + " lock for disk image: " + *d.disk.Path, why,
	}
}
