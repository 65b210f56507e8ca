package runtimespec

import (
	"context"
	"slices"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"writ/sal/containerd/device"
)

// makesNodes is the capability that makes device nodes.
const makesNodes = "CAP_MKNOD"

// WithDevices permits a container to use devices of the host, each by its number and with its access. A container with
// devices cannot make device nodes. DeviceMounts provides the nodes.
func WithDevices(devices []device.Device) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		if len(devices) == 0 {
			return nil
		}
		setRules(s, devices)
		if c := s.Process.Capabilities; c != nil {
			for _, set := range []*[]string{&c.Bounding, &c.Effective, &c.Permitted, &c.Inheritable, &c.Ambient} {
				*set = slices.DeleteFunc(*set, func(name string) bool { return name == makesNodes })
			}
		}
		return nil
	}
}

// setRules replaces the rules that permit devices. The rule of containerd that denies all other devices stays first.
func setRules(s *oci.Spec, devices []device.Device) {
	if s.Linux.Resources == nil {
		s.Linux.Resources = &specs.LinuxResources{}
	}
	rules := slices.DeleteFunc(s.Linux.Resources.Devices, func(r specs.LinuxDeviceCgroup) bool { return r.Allow })
	for _, d := range devices {
		major, minor, kind := int64(d.Major), int64(d.Minor), "c"
		if d.Block {
			kind = "b"
		}
		rules = append(rules,
			specs.LinuxDeviceCgroup{Allow: true, Type: kind, Major: &major, Minor: &minor, Access: d.Access})
	}
	s.Linux.Resources.Devices = rules
}

// DeviceMounts returns the mounts of device nodes. source returns the path of the i-th node.
func DeviceMounts(devices []device.Device, source func(i int) string) (mounts []specs.Mount) {
	for i, d := range devices {
		mounts = append(mounts, specs.Mount{
			Destination: d.Path, Type: "bind", Source: source(i), Options: []string{"bind", "nosuid", "noexec"},
		})
	}
	return mounts
}

// ReplaceDevices replaces the devices of a container with devices of the same names. source is as in DeviceMounts.
func ReplaceDevices(s *oci.Spec, devices []device.Device, source func(i int) string) {
	if len(devices) == 0 {
		return
	}
	setRules(s, devices)
	for _, m := range DeviceMounts(devices, source) {
		if i := slices.IndexFunc(s.Mounts, func(o specs.Mount) bool { return o.Source == m.Source }); i >= 0 {
			s.Mounts[i] = m
		}
	}
}

// ReplaceMount replaces the mount of a container with the same destination, if it has one.
func ReplaceMount(s *oci.Spec, m specs.Mount) {
	if i := slices.IndexFunc(s.Mounts, func(o specs.Mount) bool { return o.Destination == m.Destination }); i >= 0 {
		s.Mounts[i] = m
	}
}
