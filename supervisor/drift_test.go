package supervisor_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity/envelope"
)

// A resource that its node no longer has, or has in a different form, never counts as unchanged, whatever the journal
// recorded.
//
// Promise: Plans, scripts and manuals: A plan never shows a missing or changed resource as unchanged.
// How: The plan reads state and drift of the record; drivers inspect the resource; a guest that shut down stays off
// until `machine.start`.
// Also: TestVolumeWithoutContentIsMadeAgain, TestSnapshotsOutliveTheirVolumeContent, TestChangedImageIsFetchedAgain,
// TestFindingsOfANodeReachPeople.
func TestPreviewShowsMissingAndDrifted(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		const script = `
volume.create("a", {size_gib: 1})
volume.create("b", {size_gib: 1})
volume.create("c", {size_gib: 1})
volume.create("d", {size_gib: 1})
`
		s.wantState(s.submit(previewModules+script), writ.RunSucceeded)
		round := int64(0)
		report := func(state string, drifts ...string) {
			t.Helper()
			round++
			r := writ.Report{Node: n.id, Incarnation: 1, Round: round}
			for _, e := range s.eventsOf("resource")[:4] {
				id := e.Resource.ResourceID
				if id.Name == "a" || id.Name == "b" {
					r.States = append(r.States, writ.ResourceState{ResourceID: id, UID: e.Resource.UID, Standing: writ.Standing{State: state}})
				}
				if id.Name == "b" || id.Name == "c" {
					r.Drifts = append(r.Drifts, writ.ResourceDrift{ResourceID: id, UID: e.Resource.UID, Lasts: drifts})
				}
			}
			n.send(envelope.Report, r)
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		wants := func(script string, want []string) {
			t.Helper()
			preview := s.preview(s.payload(previewModules + script))
			got := previewLines(preview)
			for i, c := range preview.Calls {
				if len(c.Drift) > 0 {
					got[i] += " because " + strings.Join(c.Drift, ", ")
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", script, diff)
			}
		}
		same := []string{"unchanged on n1", "unchanged on n1", "unchanged on n1", "unchanged on n1"}
		wants(script, same)
		report("gone", "its content is gone")
		differs := []string{
			"create on n1 because its node no longer has it", "create on n1 because its content is gone", "act on n1 because its content is gone",
			"unchanged on n1",
		}
		wants(script, differs)
		wants(strings.ReplaceAll(script, "size_gib: 1", "size_gib: 2")[:strings.Index(script, "\nvolume.create(\"c\"")], differs[:2])
		wants(`volume.resize("a", {size_gib: 1}); volume.get("b")`, []string{"act on n1 because its node no longer has it", "read on n1 because its content is gone"})
		s.halt() // the next supervisor has the same information
		s.start()
		time.Sleep(5 * time.Second)
		wants(script, differs)

		run := s.submit(previewModules + script)
		s.wantState(run, writ.RunSucceeded)
		wants(script, same)
	})
}
