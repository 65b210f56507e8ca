package vmm

// resizeMachine changes CPUs, memory and balloon. Without a machine it changes the configuration, without any check.
func resizeMachine(v *vmm, body []byte) (any, error) {
	var asked struct {
		CPUs    *uint32 `json:"desired_vcpus"`
		RAM     *uint64 `json:"desired_ram"`
		Balloon *uint64 `json:"desired_balloon"`
	}
	if f := decodeBody(body, &fields{&asked}); f != nil {
		return nil, f
	}
	if v.config == nil {
		return nil, errNotCreated
	}
	if v.vm != nil {
		v.events.tell("vm", "resizing")
	}
	if asked.CPUs != nil {
		if err := resizeCPUs(v, *asked.CPUs); err != nil {
			return nil, err
		}
	}
	if asked.RAM != nil {
		if err := v.config.Memory.resize(v.vm, *asked.RAM); err != nil {
			return nil, err
		}
	}
	if asked.Balloon != nil {
		switch {
		case v.config.Balloon != nil:
			v.config.Balloon.Size = *asked.Balloon
		case v.vm != nil:
			return nil, chain{"Error from device manager", "No balloon device"}
		}
	}
	if v.vm != nil {
		v.events.tell("vm", "resized")
	}
	return nil, nil
}

// resizeCPUs adds CPUs or asks the guest to release some. Until the guest has released them, other resizes fail.
func resizeCPUs(v *vmm, desired uint32) error {
	if v.vm != nil && desired != v.vm.cpus {
		switch {
		case desired < 1:
			return chain{"Error from CPU manager", "Requested zero vCPUs"}
		case desired > v.config.CPUs.Max:
			return chain{"Error from CPU manager", "Requested vCPUs exceed maximum"}
		case v.vm.cpus > v.config.CPUs.Boot:
			return errPendingVCPU
		case desired > v.vm.cpus || !v.settings().StuckCPUs:
			v.vm.cpus = desired
		}
	}
	v.config.CPUs.Boot = desired
	return nil
}

// resize adds memory to vm, which may be nil. A reduction changes only the configuration, without an error, and applies
// at the next boot.
func (m *memoryConfig) resize(vm *machine, desired uint64) error {
	if vm != nil && desired > m.total() {
		more := desired - m.total()
		switch {
		case vm.dimms == maxDIMMs:
			return chain{"Memory manager error", "No ACPI slot available"}
		case more%dimmMultiple != 0 && m.HotplugMethod == "Acpi":
			return chain{"Memory manager error", "The requested hotplug memory addition is not a valid size"}
		case m.HotplugSize == nil || vm.plugged+more > *m.HotplugSize:
			return chain{"Memory manager error", "Not enough space in the hotplug RAM region"}
		}
		vm.dimms++
		vm.plugged += more
	}
	switch {
	case vm == nil || m.HotplugMethod == "Acpi":
		m.Size = desired
	case desired < m.Size:
		return chain{"Memory manager error", "Cannot resize below the size at boot"}
	case desired == m.Size:
		m.HotpluggedSize = nil
	default:
		plugged := desired - m.Size
		m.HotpluggedSize = &plugged
	}
	return nil
}

// resizeDisk changes the size of a raw disk and informs the guest. It needs a machine.
func resizeDisk(v *vmm, body []byte) (any, error) {
	var asked struct {
		ID   string `json:"id" need:"yes"`
		Size uint64 `json:"desired_size" need:"yes"`
	}
	if f := decodeBody(body, &fields{&asked}); f != nil {
		return nil, f
	}
	switch {
	case v.config == nil:
		return nil, errNotCreated
	case v.vm == nil:
		return nil, errorf("Failed resizing a disk image")
	}
	d := v.vm.find(asked.ID)
	if d == nil || d.disk == nil {
		return nil, unknownDevice(asked.ID)
	}
	if err := d.file.Truncate(int64(asked.Size)); err != nil {
		return nil, chain{"Error from device manager", "Failed to resize a disk image", cause(err).Error()}
	}
	if err := v.vm.guest.grow(d, asked.Size); err != nil {
		return nil, wrap("Error from device manager", err)
	}
	return nil, nil
}
