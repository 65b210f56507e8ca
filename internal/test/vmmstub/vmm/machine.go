package vmm

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// machine is the result of vm.boot: devices, and a guest that uses them.
type machine struct {
	bus
	events  *monitor
	plays   Release // the simulated release
	state   string
	guest   guest
	cpus    uint32
	dimms   int
	plugged uint64 // hot-plugged memory in bytes
	fault   error  // why the machine was built but does not run; vm.shutdown ends this state
}

// newMachine opens the devices of the configuration and starts a guest.
func newMachine(v *vmm, memory string) (vm *machine, err error) {
	vm = &machine{events: v.events, plays: v.release, state: stateCreated, cpus: v.config.CPUs.Boot}
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
	vm.guest, err = newGuest(v, vm, memory)
	return vm, err
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

func (vm *machine) close() {
	vm.guest.close()
	vm.release()
}

func (vm *machine) pause() error {
	vm.events.tell("vm", "pausing")
	if vm.state != stateRunning {
		return wrap("Cannot pause VM", transition("pause", vm.state, statePaused))
	}
	if err := vm.guest.pause(); err != nil {
		return wrap("Cannot pause VM", err)
	}
	vm.state = statePaused
	vm.events.tell("vm", "paused")
	return nil
}

func (vm *machine) resume() error {
	vm.events.tell("vm", "resuming")
	if vm.state == stateRunning {
		return wrap("Cannot resume VM", transition("resume", vm.state, stateRunning))
	}
	if err := vm.guest.resume(); err != nil {
		return wrap("Cannot resume VM", err)
	}
	vm.state = stateRunning
	vm.events.tell("vm", "resumed")
	return nil
}

// interrupt is an NMI, which guests ignore.
func (vm *machine) interrupt() error { return nil }

func transition(verb, from, to string) error {
	return chain{
		"Failed to " + verb + " migratable component",
		fmt.Sprintf("Invalid transition: InvalidStateTransition(%s, %s)", from, to),
	}
}

// unplug asks the guest to release a device. An event reports the release.
func (vm *machine) unplug(id string) error {
	d := vm.find(id)
	if d == nil || d.down && vm.plays < V54 {
		return unknownDevice(id)
	}
	if d.disk == nil && d.net == nil {
		return chain{"Error from device manager", "Removing device of that type is not allowed"}
	}
	if err := vm.guest.unplug(d); err != nil {
		return wrap("Error from device manager", err)
	}
	d.down = true
	if d.disk != nil {
		unlockDisk(d.file)
	}
	return nil
}

// unplugged completes unplug: the guest has released a device.
func (vm *machine) unplugged(name string) {
	i := slices.IndexFunc(vm.devices, func(d *device) bool { return d.name() == name && d.down })
	if i < 0 {
		return
	}
	d := vm.devices[i]
	vm.guest.unplugged(d)
	vm.drop(d)
	vm.events.tell("vm", "device-removed", "id", d.id, "bdf", d.bdf())
}

// counters returns the I/O counters of disks and networks.
func (vm *machine) counters() map[string]map[string]uint64 {
	all := map[string]map[string]uint64{}
	for _, d := range vm.devices {
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
		maps.Copy(all[d.id], vm.guest.counters(d))
	}
	return all
}
