package supervisor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
)

func TestPreviewWarnsOfFullDisk(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		time.Sleep(2 * time.Second)
		run := s.submit(previewModules + `volume.create("old", {size_gib: 1}); volume.create("same", {size_gib: 1})`)
		s.wantState(run, writ.RunSucceeded)
		script := s.payload(previewModules + `
volume.create("v", {size_gib: 1})
volume.create("same", {size_gib: 1})
volume.delete("old")
`)
		warnings := func(round, free int64) (all []string) {
			t.Helper()
			n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: round, Findings: writ.Findings{Disks: []writ.Disk{{Path: "/srv", Bytes: 100 << 30, Free: free}}}})
			time.Sleep(2 * time.Second)
			synctest.Wait()
			for _, c := range s.preview(script).Calls {
				all = append(all, c.Warning)
			}
			return all
		}
		if got := warnings(1, 5<<30); got[0] != "" {
			t.Errorf("warning with 5%% free: %q, want none", got)
		}
		const want = "a disk of n1 is almost full: 4% of it is free"
		if got := warnings(2, 5<<30-1); len(got) != 3 || got[0] != want || got[1] != "" || got[2] != "" {
			t.Errorf("warnings below 5%% free: %q, want %q for the first call only", got, want)
		}
		if last := s.lastAbout(n.id); len(last.Disks) != 1 || last.Disks[0].Free != 5<<30-1 {
			t.Errorf("disks of the node = %+v", last.Disks)
		}
	})
}
