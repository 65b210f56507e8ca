package vmm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
)

// machine is the result of vm.boot: devices, and a guest that uses them.
type machine struct {
	plays   Release // its release
	state   string
	guest   guest
	devices []*device
	counter int // for generated IDs
	cpus    uint32
	dimms   int
	plugged uint64 // hot-plugged memory in bytes
	fault   error  // reason why it was built but does not run; it stays until its shutdown
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

// newMachine opens the devices of the configuration and starts a guest.
func (v *vmm) newMachine(memory string) (vm *machine, err error) {
	vm = &machine{plays: v.release, state: stateCreated, cpus: v.config.CPUs.Boot}
	defer func() {
		if err != nil {
			vm.release()
		}
	}()
	if err := v.config.Payload.load(&v.config.Memory); err != nil {
		return vm, err
	}
	if v.config.Console.Mode != "Off" {
		_, err = vm.add("__console")
	}
	for _, disk := range v.config.Disks {
		if err == nil {
			_, err = vm.addDisk(disk)
		}
	}
	for _, net := range v.config.Net {
		if err == nil {
			_, err = vm.addNet(net)
		}
	}
	if err == nil {
		_, err = vm.add("__rng")
	}
	if err == nil && v.config.Balloon != nil {
		_, err = vm.add("__balloon")
	}
	if err == nil && v.config.Vsock != nil {
		_, err = vm.add(vm.name("_vsock", &v.config.Vsock.pciCommon))
	}
	if err != nil {
		return vm, err
	}
	if err := vm.lock(); err != nil {
		vm.guest = newSimulatedGuest(v, nil, true)
		vm.fault = wrap("Error locking disk images: Another instance likely holds a lock", err)
		return vm, nil
	}
	vm.guest, err = v.newGuest(vm, memory)
	return vm, err
}

// lock locks all disks. After an error, some may be locked.
func (vm *machine) lock() error {
	for _, d := range vm.devices {
		if err := d.lock(); err != nil {
			return err
		}
	}
	return nil
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

// add gives a device a slot on the bus.
func (vm *machine) add(id string) (*device, error) {
	for slot := 1; slot < maxPCIDevices; slot++ {
		if !slices.ContainsFunc(vm.devices, func(d *device) bool { return d.slot == slot }) {
			d := &device{id: id, slot: slot}
			vm.devices = append(vm.devices, d)
			return d, nil
		}
	}
	return nil, chain{"Error from device manager", "Failed to find an available PCI device ID"}
}

// name returns the ID of a device, which it generates if none was given.
func (vm *machine) name(prefix string, common *pciCommon) string {
	for common.ID == nil {
		id := fmt.Sprintf("%s%d", prefix, vm.counter)
		vm.counter++
		if vm.find(id) == nil {
			common.ID = &id
		}
	}
	return *common.ID
}

func (vm *machine) find(id string) *device {
	for _, d := range vm.devices {
		if d.id == id {
			return d
		}
	}
	return nil
}

// sectorSize is the minimum size of a disk, in bytes.
const sectorSize = 512

func (vm *machine) addDisk(disk *diskConfig) (*device, error) {
	if disk.Path == nil {
		return nil, chain{"Error from device manager", "vmmstub has no vhost-user disks"}
	}
	if disk.ImageType == "Qcow2" || disk.ImageType == "Vhdx" || disk.ImageType == "FixedVhd" {
		return nil, chain{"Error from device manager", "vmmstub has raw disks only"}
	}
	file, err := openDisk(*disk.Path, disk.ReadOnly)
	if err != nil {
		return nil, chain{"Error from device manager", "Cannot open disk path", cause(err).Error()}
	}
	if info, err := file.Stat(); err == nil && info.Size() < sectorSize && vm.plays < V54 { // later releases accept it
		_ = file.Close()
		return nil, chain{"Error from device manager", "Cannot create virtio-blk device", "The disk is smaller than a sector"}
	}
	d, err := vm.add(vm.name("_disk", &disk.pciCommon))
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	d.file, d.disk = file, disk
	return d, nil
}

func (vm *machine) addNet(net *netConfig) (*device, error) {
	if net.Tap == nil {
		return nil, chain{"Error from device manager", "vmmstub needs the name of a tap for a network"}
	}
	if net.NumQueues != 2 {
		return nil, chain{"Error from device manager", "Cannot open tap interface", "vmmstub has taps with one queue only"}
	}
	tap, err := openTap(*net.Tap, net.HostMAC, net.MTU)
	if err != nil {
		return nil, chain{
			"Error from device manager", "Cannot create virtio-net device", "Failed to open taps", "Open tap device failed",
			cause(err).Error(),
		}
	}
	d, err := vm.add(vm.name("_net", &net.pciCommon))
	if err != nil {
		_ = tap.Close()
		return nil, err
	}
	d.file, d.net = tap, net
	return d, nil
}

// drop removes a device from the bus.
func (vm *machine) drop(d *device) {
	d.release()
	vm.devices = slices.DeleteFunc(vm.devices, func(other *device) bool { return other == d })
}

func (vm *machine) release() {
	for _, d := range vm.devices {
		d.release()
	}
}

func (vm *machine) close() {
	vm.guest.close()
	vm.release()
}

// node is an entry of the device tree in vm.info.
type node struct {
	ID        string   `json:"id"`
	Resources []any    `json:"resources"`
	Children  []string `json:"children"`
	Parent    string   `json:"parent,omitempty"`
	BDF       string   `json:"pci_bdf,omitempty"`
}

func (vm *machine) tree() map[string]node {
	tree := map[string]node{"__serial": {ID: "__serial", Resources: []any{}, Children: []string{}}}
	for _, d := range vm.devices {
		pci := "_virtio-pci-" + d.id
		tree[d.id] = node{ID: d.id, Resources: []any{}, Children: []string{}, Parent: pci}
		tree[pci] = node{ID: pci, Resources: []any{}, Children: []string{d.id}, BDF: d.bdf()}
	}
	return tree
}

// pciInfo is the answer to a hot-plug request.
type pciInfo struct {
	ID  string `json:"id"`
	BDF string `json:"bdf"`
}

// attach adds a device. Without a machine it is added only to the configuration, and the answer has no body.
func (v *vmm) attach(add func(config *vmConfig), plug func(vm *machine) (*device, error)) (any, error) {
	if v.config == nil {
		return nil, errNotCreated
	}
	tried := v.config.clone()
	add(tried)
	if err := tried.validate(v.release); err != nil {
		return nil, err
	}
	if v.vm == nil {
		add(v.config)
		return nil, nil
	}
	d, err := plug(v.vm)
	if err != nil {
		return nil, err
	}
	if err := v.vm.guest.plug(d); err != nil {
		v.vm.drop(d)
		return nil, wrap("Error from device manager", err)
	}
	add(v.config)
	return pciInfo{d.id, d.bdf()}, nil
}

func (v *vmm) addDisk(body []byte) (any, error) {
	disk := &diskConfig{}
	if f := decodeBody(body, disk); f != nil {
		return nil, f
	}
	return v.attach(func(c *vmConfig) { c.Disks = append(c.Disks, disk) }, func(vm *machine) (*device, error) {
		d, err := vm.addDisk(disk)
		if err != nil {
			return nil, err
		}
		if err := d.lock(); err != nil {
			vm.drop(d)
			return nil, wrap("Error from device manager", err)
		}
		return d, nil
	})
}

func (v *vmm) addNet(body []byte) (any, error) {
	net := &netConfig{}
	if f := decodeBody(body, net); f != nil {
		return nil, f
	}
	return v.attach(func(c *vmConfig) { c.Net = append(c.Net, net) },
		func(vm *machine) (*device, error) { return vm.addNet(net) })
}

// removeDevice removes a device from the configuration and asks the guest to release it. An event reports the release.
func (v *vmm) removeDevice(body []byte) (any, error) {
	asked := struct {
		ID string `json:"id" need:"yes"`
	}{}
	if f := decodeBody(body, &fields{&asked}); f != nil {
		return nil, f
	}
	switch {
	case v.config == nil:
		return nil, errNotCreated
	case v.vm == nil && !v.config.remove(asked.ID):
		return nil, graded{chain{fmt.Sprintf("No device with id %q to remove", asked.ID)}, 404}
	case v.vm == nil:
		return nil, nil
	}
	d := v.vm.find(asked.ID)
	if d == nil || d.down && v.release < V54 {
		return nil, unknownDevice(asked.ID)
	}
	if d.disk == nil && d.net == nil {
		return nil, chain{"Error from device manager", "Removing device of that type is not allowed"}
	}
	if err := v.vm.guest.unplug(d); err != nil {
		return nil, wrap("Error from device manager", err)
	}
	d.down = true
	if d.disk != nil {
		unlockDisk(d.file)
	}
	v.config.remove(asked.ID)
	return nil, nil
}

// remove removes a disk or network from the configuration and reports whether it existed.
func (c *vmConfig) remove(id string) bool {
	before := len(c.Disks) + len(c.Net)
	c.Disks = slices.DeleteFunc(c.Disks, func(d *diskConfig) bool { return d.id() == id })
	c.Net = slices.DeleteFunc(c.Net, func(n *netConfig) bool { return n.id() == id })
	return len(c.Disks)+len(c.Net) < before
}

// unplugged completes removeDevice.
func (v *vmm) unplugged(name string) {
	i := slices.IndexFunc(v.vm.devices, func(d *device) bool { return d.name() == name && d.down })
	if i < 0 {
		return
	}
	d := v.vm.devices[i]
	v.vm.guest.unplugged(d)
	v.vm.drop(d)
	v.event("vm", "device-removed", "id", d.id, "bdf", d.bdf())
}

// counters returns the I/O counters of disks and networks.
func (v *vmm) counters([]byte) (any, error) {
	if v.vm == nil {
		return nil, errNotRunning
	}
	all := map[string]map[string]uint64{}
	for _, d := range v.vm.devices {
		switch {
		case d.disk != nil:
			all[d.id] = map[string]uint64{"read_bytes": 0, "write_bytes": 0, "read_ops": 0, "write_ops": 0,
				// As in the real program before the first read.
				"read_latency_min": math.MaxUint64, "read_latency_max": 0, "read_latency_avg": 0,
				"write_latency_min": math.MaxUint64, "write_latency_max": 0, "write_latency_avg": 0}
		case d.net != nil:
			all[d.id] = tapCounters(*d.net.Tap)
		default:
			continue
		}
		maps.Copy(all[d.id], v.vm.guest.counters(d))
	}
	return all, nil
}
