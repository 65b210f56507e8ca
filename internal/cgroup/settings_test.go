package cgroup

import (
	"strings"
	"testing"
)

func TestBoundsBecomeSettingsInOrder(t *testing.T) {
	all := Bounds{Memory: 1 << 20, MilliCPUs: 1500, Weight: 2 * PerCPU, Processes: 7}
	for name, tt := range map[string]struct {
		bounds  Bounds
		unified bool
		want    string
	}{
		"version 2": {all, true, "memory.swap.max=0? memory.max=1048576 pids.max=7 cpu.max=150000 100000 cpu.weight=200"},
		"version 1": {all, false, "memory.memsw.limit_in_bytes=1048576? memory.limit_in_bytes=1048576 memory.memsw.limit_in_bytes=1048576? " +
			"pids.max=7 cpu.cfs_period_us=100000 cpu.cfs_quota_us=150000 cpu.shares=2048"},
		"the highest weights": {Bounds{Weight: 1 << 40}, true, "cpu.weight=10000"},
		"unlimited":           {Bounds{}, true, ""},
	} {
		var got []string
		for _, s := range settingsOf(tt.bounds, tt.unified) {
			text := s.file + "=" + s.text
			if s.lax {
				text += "?"
			}
			got = append(got, text)
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: %s\nwant %s", name, got, tt.want)
		}
	}
}
