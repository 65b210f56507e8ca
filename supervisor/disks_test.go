package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"writ/supervisor/bound"

	"writ"
)

func TestShownDiskChangesByHundredths(t *testing.T) {
	t.Parallel()
	const size = 10_000
	for _, tt := range []struct {
		name              string
		shown, free, want int64
	}{
		{"a hundredth less", 6000, 5900, 5900},
		{"less than that", 6000, 5901, 6000},
		{"a little more", 6000, 6099, 6000},
		{"a hundredth more", 6000, 6100, 6100},
		{"almost full", 500, 499, 499},
		{"almost full no more", 499, 500, 500},
		{"still almost full", 499, 450, 499},
	} {
		got := steadyDisks([]writ.Disk{{Path: "/a", Bytes: size, Free: tt.shown}}, []writ.Disk{{Path: "/a", Bytes: size, Free: tt.free}})
		if len(got) != 1 || got[0].Free != tt.want {
			t.Errorf("%s: %+v, want %d free", tt.name, got, tt.want)
		}
	}
	grown := []writ.Disk{{Path: "/a", Bytes: size + 1, Free: 6001}, {Path: "/b", Bytes: size, Free: 1}}
	if got := steadyDisks([]writ.Disk{{Path: "/a", Bytes: size, Free: 6000}}, grown); !slices.Equal(got, grown) {
		t.Errorf("a disk that grew and a new one: %+v, want %+v", got, grown)
	}
}

func TestNodeCannotInventDisks(t *testing.T) {
	t.Parallel()
	report := &writ.Report{Findings: writ.Findings{Disks: []writ.Disk{{Path: strings.Repeat("p\n", 1<<12), Bytes: 1 << 62, Free: -1}}}}
	for i := range 1000 {
		report.Disks = append(report.Disks, writ.Disk{Path: fmt.Sprint("/", i/2), Bytes: 10, Free: 100})
	}
	got := moderateReport(report).Disks
	if len(got) != 17 { // of the first 32, each other one has a path of its own
		t.Fatalf("%d disks are kept, want 17", len(got))
	}
	if d := got[0]; len(d.Path) > bound.MaxWord || strings.Contains(d.Path, "\n") || d.Bytes != maxDiskBytes || d.Free != 0 {
		t.Errorf("a disk has %d bytes of path, %d and %d", len(d.Path), d.Bytes, d.Free)
	}
	if want := (writ.Disk{Path: "/0", Bytes: 10, Free: 10}); got[1] != want {
		t.Errorf("a disk with more free than it has is %+v, want %+v", got[1], want)
	}
}
