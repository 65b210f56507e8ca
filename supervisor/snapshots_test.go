package supervisor_test

import (
	"context"
	"testing"
	"time"

	"writ"
)

// TestSnapshotsCountForTheirNode fills a node of 10 GiB with the snapshots of a machine, until the last one is deleted.
func TestSnapshotsCountForTheirNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) {
			n.capacity.DiskGiB = 10
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				r := succeed(ctx, job)
				switch job.Operation {
				case "machine.snapshot":
					r.Values["disk_gib"] = int64(8)
				case "machine.create", "machine.delete_snapshot":
					r.Values["disk_gib"] = int64(0)
				}
				return r
			}
		})
		time.Sleep(3 * time.Second)
		const use = "machine := import(\"machine\"); volume := import(\"volume\")\n"
		s.wantState(s.submit(use+`machine.create("web", {cpus: 1, memory_mib: 512}); machine.snapshot("web", {snapshot: "s"})`), writ.RunSucceeded)
		more := use + `volume.create("more", {size_gib: 5}, {timeout: "1m"})`
		if run, _ := s.wantState(s.submit(more), writ.RunFailed); run.Failure.Error.Code != writ.CodeNoCapacity {
			t.Errorf("create a volume with 8 GiB of snapshots: %+v, want NO_CAPACITY", run.Failure)
		}
		s.wantState(s.submit(use+`machine.delete_snapshot("web", {snapshot: "s"})`), writ.RunSucceeded)
		s.wantState(s.submit(more), writ.RunSucceeded)
	})
}

// A node fills up with snapshots, whose size is unknown before they are written.
func TestFullNodeWritesNoMoreSnapshots(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) {
			n.capacity.DiskGiB = 3
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				r := succeed(ctx, job)
				if job.Operation == "machine.snapshot" {
					r.Values["disk_gib"] = int64(3)
				}
				return r
			}
		})
		time.Sleep(3 * time.Second)
		const use = "machine := import(\"machine\"); volume := import(\"volume\")\n"
		s.wantState(s.submit(use+`machine.create("web", {cpus: 1, memory_mib: 512}); volume.create("data", {size_gib: 1})`), writ.RunSucceeded)
		s.wantState(s.submit(use+`machine.snapshot("web", {snapshot: "s"})`), writ.RunSucceeded)
		for _, call := range []string{`machine.snapshot("web", {snapshot: "more"})`, `volume.send("data", {backup: "nightly"})`} {
			if run, _ := s.wantState(s.submit(use+call), writ.RunFailed); run.Failure.Error.Code != writ.CodeNoCapacity {
				t.Errorf("%s on a full node: %+v", call, run.Failure)
			}
		}
		s.wantState(s.submit(use+`machine.get("web"); volume.snapshot("data", {snapshot: "free"})`), writ.RunSucceeded)
	})
}
