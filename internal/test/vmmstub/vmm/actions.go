package vmm

import "os"

// ping answers even without a machine.
func ping(v *vmm, _ []byte) (any, error) {
	return struct {
		BuildVersion string   `json:"build_version"`
		Version      string   `json:"version"`
		PID          int      `json:"pid"`
		Features     []string `json:"features"`
	}{v.release.String(), v.release.number(), os.Getpid(), []string{"io_uring", "kvm"}}, nil
}

// create stores a configuration and opens its consoles; it does not validate the configuration. If a console cannot be
// opened, the configuration still stays, and the next create fails because of it.
func create(v *vmm, body []byte) (any, error) {
	config := &vmConfig{}
	if f := decodeBody(body, config); f != nil {
		return nil, f
	}
	if v.config != nil {
		return nil, errAlreadyCreated
	}
	v.config = config
	return nil, v.console.open(v.config)
}

// info returns configuration and state.
func info(v *vmm, _ []byte) (any, error) {
	if v.config == nil {
		return nil, errNotCreated
	}
	answer := struct {
		Config  *vmConfig       `json:"config"`
		State   string          `json:"state"`
		Memory  uint64          `json:"memory_actual_size"`
		Devices map[string]node `json:"device_tree,omitempty"`
	}{v.config, stateCreated, v.config.Memory.total(), nil}
	if v.vm != nil {
		answer.State, answer.Devices = v.vm.state, v.vm.tree()
		if v.config.Balloon != nil {
			answer.Memory -= v.config.Balloon.Size
		}
	}
	return answer, nil
}

// counters returns the I/O counters of the devices.
func counters(v *vmm, _ []byte) (any, error) {
	if v.vm == nil {
		return nil, errNotRunning
	}
	return v.vm.counters(), nil
}

// pressPowerButton presses the power button. It succeeds even if the guest ignores it.
func pressPowerButton(v *vmm, _ []byte) (any, error) {
	if v.vm == nil {
		return nil, errNotRunning
	}
	if v.settings().Deaf {
		v.log.Info("the guest ignores its power button because of the settings")
		return nil, nil
	}
	if err := v.vm.guest.powerButton(); err != nil {
		return nil, wrap("Error triggering power button", err)
	}
	return nil, nil
}
