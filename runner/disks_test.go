package runner_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/runner"
)

// A file system that does not answer delays no report.
func TestReportNamesDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		stuck := make(chan struct{})
		disks := []writ.Disk{{Path: "/srv", Bytes: 100, Free: 7}}
		n := newFixture(t).fresh(func(r *runner.Runner) {
			r.Disks = func() []writ.Disk {
				if hangs.Load() {
					<-stuck
				}
				return disks
			}
		})
		quiet(time.Second)
		if got := n.lastReport(); !slices.Equal(got.Disks, disks) {
			t.Errorf("the report has the disks %+v, want %+v", got.Disks, disks)
		}
		before := n.lastReport().Round
		hangs.Store(true)
		quiet(2 * time.Minute)
		if got := n.lastReport(); got.Round <= before || got.Disks != nil {
			t.Errorf("while a disk hangs, report %d follows %d with %+v", got.Round, before, got.Disks)
		}
		close(stuck)
		quiet(time.Minute)
		if got := n.lastReport(); !slices.Equal(got.Disks, disks) {
			t.Errorf("afterwards the report has the disks %+v, want %+v", got.Disks, disks)
		}
	})
}
