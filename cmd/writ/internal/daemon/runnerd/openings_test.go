package runnerd

import (
	"strings"
	"testing"

	"writ"
	"writ/sal"
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
