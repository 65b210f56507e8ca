package bound

import (
	"fmt"
	"strings"
	"testing"

	"writ"
)

func TestNodeCannotInventDisks(t *testing.T) {
	t.Parallel()
	report := &writ.Report{Findings: writ.Findings{Disks: []writ.Disk{{Path: strings.Repeat("p\n", 1<<12), Bytes: 1 << 62, Free: -1}}}}
	for i := range 1000 {
		report.Disks = append(report.Disks, writ.Disk{Path: fmt.Sprint("/", i/2), Bytes: 10, Free: 100})
	}
	got := Report(report).Disks
	if len(got) != 17 { // of the first 32, each other one has a path of its own
		t.Fatalf("%d disks are kept, want 17", len(got))
	}
	if d := got[0]; len(d.Path) > MaxWord || strings.Contains(d.Path, "\n") || d.Bytes != maxDiskBytes || d.Free != 0 {
		t.Errorf("a disk has %d bytes of path, %d and %d", len(d.Path), d.Bytes, d.Free)
	}
	if want := (writ.Disk{Path: "/0", Bytes: 10, Free: 10}); got[1] != want {
		t.Errorf("a disk with more free than it has is %+v, want %+v", got[1], want)
	}
}
