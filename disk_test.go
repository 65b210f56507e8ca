package writ_test

import (
	"testing"

	"writ"
)

// Nodes offer all but a twentieth of their disk.
//
// Promise: Operation: Lists of nodes, plans, watched runs, the doctor and the dashboard name each disk with less than
// a twentieth free.
// How: Each report of a node has the free bytes of its disks.
// Also: TestReportNamesDisks, TestPreviewWarnsOfFullDisk, TestNodeShowsItsDisks, TestWatchWarnsOfFullDiskOnce,
// TestDoctorNamesAnAwayDatacenter, TestDoctorNamesNodesThatNeedAPerson, TestDoctorNamesThingsThatExpire,
// TestAlmostFullDiskNeedsAttention.
func TestDiskIsAlmostFullBelowTwentieth(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		bytes, free int64
		full        bool
	}{
		{100, 100, false},
		{100, 5, false},
		{100, 4, true},
		{1 << 40, 1 << 40 / 20, false},
		{1 << 40, 1<<40/20 - 1, true},
		{1 << 40, 0, true},
		{0, 0, false}, // unknown
	} {
		if got := (writ.Disk{Bytes: tt.bytes, Free: tt.free}).AlmostFull(); got != tt.full {
			t.Errorf("%d of %d bytes free: almost full is %v, want %v", tt.free, tt.bytes, got, tt.full)
		}
	}
	n := writ.Node{Findings: writ.Findings{Disks: []writ.Disk{{Path: "/a", Bytes: 100, Free: 3}, {Path: "/b", Bytes: 1000, Free: 7}, {Path: "/c", Bytes: 10, Free: 9}}}}
	if d := n.AlmostFullDisk(); d == nil || d.Path != "/b" {
		t.Errorf("the fullest disk is %+v, want /b", d)
	}
	n.Disks = n.Disks[2:]
	if d := n.AlmostFullDisk(); d != nil {
		t.Errorf("%+v is almost full", d)
	}
	if got := (writ.Disk{Path: "/srv", Bytes: 40 << 30, Free: 1<<30 + 200<<20}).String(); got != "/srv has 1.2 of 40.0 GiB free" {
		t.Errorf("a disk is shown as %q", got)
	}
}
