package daemons

import (
	"testing"

	"writ"
	"writ/cmd/writ/internal/daemon/runnerd"
)

func TestHostDriversAllowOneNode(t *testing.T) {
	for _, tt := range []struct {
		drivers            runnerd.Drivers
		datacenters, nodes int
		want               string
	}{
		{runnerd.DriversHost, 1, 1, ""},
		{runnerd.DriversHost, 1, 2, "use --dcs 1 --nodes 1"},
		{runnerd.DriversHost, 2, 1, "use --dcs 1 --nodes 1"},
		{runnerd.DriversAuto, 2, 32, ""},
		{runnerd.DriversSimulated, 5, 13, "at most 64 nodes in all"},
	} {
		err := checkDevNodes(tt.drivers, tt.datacenters, tt.nodes)
		got := ""
		if err != nil {
			got = writ.AsError(err).Hint
		}
		if got != tt.want || (err != nil) != (tt.want != "") {
			t.Errorf("%s, %d × %d: %v, hint %q, want hint %q", tt.drivers, tt.datacenters, tt.nodes, err, got, tt.want)
		}
	}
}
