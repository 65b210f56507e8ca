package vmm

import (
	"fmt"
	"slices"
)

// pciInfo is the answer to a hot-plug request.
type pciInfo struct {
	ID  string `json:"id"`
	BDF string `json:"bdf"`
}

// attach adds a device. Without a machine it is added only to the configuration, and the answer has no body.
func attach(v *vmm, add func(config *vmConfig), plug func(vm *machine) (*device, error)) (any, error) {
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

func addDisk(v *vmm, body []byte) (any, error) {
	disk := &diskConfig{}
	if f := decodeBody(body, disk); f != nil {
		return nil, f
	}
	return attach(v, func(c *vmConfig) { c.Disks = append(c.Disks, disk) }, func(vm *machine) (*device, error) {
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

func addNet(v *vmm, body []byte) (any, error) {
	net := &netConfig{}
	if f := decodeBody(body, net); f != nil {
		return nil, f
	}
	return attach(v, func(c *vmConfig) { c.Net = append(c.Net, net) },
		func(vm *machine) (*device, error) { return vm.addNet(net) })
}

// removeDevice removes a device from the configuration, and asks the guest to release it.
func removeDevice(v *vmm, body []byte) (any, error) {
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
	if err := v.vm.unplug(asked.ID); err != nil {
		return nil, err
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
