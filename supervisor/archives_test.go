package supervisor_test

import (
	"context"
	"testing"
	"time"

	"writ"
)

// TestArchivesCountForTheirNode fills a node of 10 GiB with the archives of one volume, until an archive is deleted.
func TestArchivesCountForTheirNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) {
			n.capacity.DiskGiB = 10
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				r := succeed(ctx, job)
				switch job.Operation {
				case "volume.send":
					r.Values["disk_gib"] = int64(10)
				case "volume.discard":
					r.Values["disk_gib"] = int64(1)
				}
				return r
			}
		})
		time.Sleep(3 * time.Second)
		const volume = "volume := import(\"volume\")\n"
		s.wantState(s.submit(volume+`volume.create("data", {size_gib: 1}); volume.send("data", {backup: "nightly"})`), writ.RunSucceeded)
		more := volume + `volume.create("more", {size_gib: 5}, {timeout: "1m"})`
		if run, _ := s.wantState(s.submit(more), writ.RunFailed); run.Failure.Error.Code != writ.CodeNoCapacity {
			t.Errorf("create a volume with 9 GiB of archives: %+v, want NO_CAPACITY", run.Failure)
		}
		again := volume + `volume.send("data", {backup: "weekly"})`
		run, _ := s.wantState(s.submit(again), writ.RunFailed)
		if want := "n1 has 0 GiB of disk free, 1 needed"; run.Failure.Error.Message != want {
			t.Errorf("send a second archive: %q, want %q", run.Failure.Error.Message, want)
		}
		s.wantState(s.submit(volume+`volume.discard("data", {backup: "nightly"})`), writ.RunSucceeded)
		s.wantState(s.submit(more), writ.RunSucceeded)
	})
}
