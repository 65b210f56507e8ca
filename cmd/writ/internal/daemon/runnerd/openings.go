package runnerd

import (
	"slices"

	"writ"
	"writ/internal/opening"
	"writ/sal/containerd/device"
)

// openings parses Publish.
func (h HostConfig) openings() (opening.List, error) {
	if slices.Equal(h.Publish, []string{"none"}) {
		return nil, nil
	}
	open, err := opening.ParseList(h.Publish)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "--publish: %w", err).
			WithHint("pass an address of the node with ports, such as --publish 192.0.2.10:80,443,8000-8999, or --publish none alone")
	}
	return open, nil
}

// devices parses Devices.
func (h HostConfig) devices() (device.List, error) {
	all, err := device.ParseList(h.Devices)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "--device: %w", err).
			WithHint("--device takes a name and a path, as kvm=/dev/kvm; with :r, containers only read")
	}
	return all, nil
}
