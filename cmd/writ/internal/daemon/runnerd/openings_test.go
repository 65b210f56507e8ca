package runnerd

import (
	"slices"
	"strings"
	"testing"

	"writ"
	"writ/sal"
	"writ/sal/containerd/device"
)

func TestOpenPortsReachTheDrivers(t *testing.T) {
	for _, tt := range []struct {
		publish []string
		want    string
	}{
		{nil, ""}, {[]string{"none"}, ""},
		{[]string{"192.0.2.10:80,8000-8999", "[2001:db8::10]:80"}, "192.0.2.10:80,8000-8999 [2001:db8::10]:80"},
	} {
		c := driverConfig{Choice: DriversSimulated, Dir: t.TempDir(), Host: HostConfig{Publish: tt.publish}}
		d, err := openDrivers(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		open, err := c.Host.openings()
		if err != nil {
			t.Fatal(err)
		}
		c.open = open
		for _, network := range append(d.all, sal.Driver(newHost(c, t.TempDir()).networks)) {
			if about := network.Describe(); about.Module == "network" && strings.Join(about.Opens, " ") != tt.want {
				t.Errorf("--publish %v: the %s driver opens %v", tt.publish, about.Name, about.Opens)
			}
		}
	}
	for _, wrong := range [][]string{{"8080"}, {"192.0.2.10:80", "none"}, {"[::1]:80"}, {"0.0.0.0:80"}, {""}} {
		_, err := openDrivers(t.Context(), driverConfig{Choice: DriversSimulated, Dir: t.TempDir(), Host: HostConfig{Publish: wrong}})
		if writ.CodeOf(err) != writ.CodeUsage || writ.AsError(err).Hint == "" {
			t.Errorf("--publish %v: %v", wrong, err)
		}
	}
}

func TestDevicesReachTheDrivers(t *testing.T) {
	c := driverConfig{Choice: DriversSimulated, Dir: t.TempDir(), Host: HostConfig{Devices: []string{"tpm=/dev/tpm0:r", "kvm=/dev/kvm"}}}
	d, err := openDrivers(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range d.all {
		about := each.Describe()
		if got := strings.Join(about.Devices, " "); got != map[bool]string{true: "kvm tpm"}[about.Module == "container"] {
			t.Errorf("the %s driver offers %q", about.Module, got)
		}
	}
	if c.devices, err = c.Host.devices(); err != nil {
		t.Fatal(err)
	}
	want := device.List{{Name: "tpm", Path: "/dev/tpm0", Access: "r"}, {Name: "kvm", Path: "/dev/kvm", Access: "rw"}}
	if got := newHost(c, t.TempDir()).containers.Devices; !slices.Equal(got, want) {
		t.Errorf("the driver of containers has %v", got)
	}
	for _, wrong := range []string{"/dev/kvm", "kvm=/etc/passwd", "kvm=/dev/kvm:w", ""} {
		host := HostConfig{Devices: []string{wrong}}
		_, runner := openDrivers(t.Context(), driverConfig{Choice: DriversSimulated, Dir: t.TempDir(), Host: host})
		_, doctor := HostNeeds(t.Context(), t.TempDir(), host)
		for _, err := range []error{runner, doctor} {
			if writ.CodeOf(err) != writ.CodeUsage || writ.AsError(err).Hint == "" {
				t.Errorf("--device %q: %v", wrong, err)
			}
		}
	}
}
