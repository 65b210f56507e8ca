package supervisor_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity/seal"
	"writ/supervisor/journal"
)

// eventsOf returns the events of a topic.
func (s *site) eventsOf(topic string) (all []writ.Event) {
	s.t.Helper()
	events, err := s.journal.Events(s.t.Context(), 0, 10_000)
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(events, func(e writ.Event) bool { return e.Topic() != topic })
}

func TestDriftBecomesPartOfItsResource(t *testing.T) {
	inSite(t, func(t *testing.T, s *site) {
		n, other := s.join("n1"), s.join("n2")
		s.wantState(s.submit(`volume := import("volume")`+"\n"+`volume.create("v", {size_gib: 1}, {node: "n1"})`), writ.RunSucceeded)
		drift := func() []string {
			t.Helper()
			var found *journal.Resource
			err := s.journal.Read(t.Context(), func(tx *journal.Tx) (err error) {
				found, err = tx.Resource(writ.ResourceID{Project: theProject, Kind: writ.KindVolume, Name: "v"})
				return err
			})
			if err != nil || found == nil {
				t.Fatal(found, err)
			}
			return found.Drift
		}
		resource := s.eventsOf("resource")[0].Resource
		report := func(from *testNode, round int64, lasts ...string) {
			t.Helper()
			from.send(seal.Report, writ.Report{
				Node: from.id, Incarnation: 1, Round: round, Drifts: []writ.ResourceDrift{{ResourceID: resource.ResourceID, UID: resource.UID, Lasts: lasts}},
				Orphans: []writ.Orphan{{Module: "volume", Kind: "subvolume", Name: "v0"}},
				Network: &writ.NodeNetwork{Denied: 7, Overlay: &writ.Overlay{Connected: true, Peers: make([]writ.OverlayPeer, 1000), PeerCount: 1000}},
			})
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		report(n, 2, "its quota is gone")
		if diff := cmp.Diff([]string{"its quota is gone"}, drift()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		report(n, 1, "an old word")
		report(other, 1, "not mine")
		if diff := cmp.Diff([]string{"its quota is gone"}, drift()); diff != "" {
			t.Errorf("after an old report and one of another node (-want +got):\n%s", diff)
		}
		told := len(s.eventsOf("resource"))
		report(n, 3, "its quota is gone")
		if again := len(s.eventsOf("resource")); again != told {
			t.Errorf("the same again is told again: %d events, then %d", told, again)
		}
		n.send(seal.Report, writ.Report{Node: n.id, Incarnation: 1, Round: 4, Drifts: []writ.ResourceDrift{
			{ResourceID: resource.ResourceID, Lasts: []string{"it cannot be looked after"}},
		}})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"it cannot be looked after"}, drift()); diff != "" {
			t.Errorf("from a driver that does not know which one it is (-want +got):\n%s", diff)
		}
		report(n, 5)
		if got := drift(); len(got) > 0 {
			t.Errorf("what is mended stays: %q", got)
		}
		nodes := s.eventsOf("node")
		if last := nodes[len(nodes)-1].Node; len(last.Orphans) != 1 {
			t.Errorf("orphans of the node: %+v", last.Orphans)
		} else if last.Network == nil || last.Network.Denied != 7 || !last.Network.Overlay.Connected || len(last.Network.Overlay.Peers) > 100 {
			t.Errorf("networks of the node: %+v", last.Network)
		}
	})
}

func TestUsageIsToldOnceItIsOnDisk(t *testing.T) {
	inSite(t, func(t *testing.T, s *site) {
		n, liar := s.join("n1"), s.join("n2")
		hour := time.Now().UTC().Truncate(time.Hour)
		usage := writ.Usage{
			ResourceID: writ.ResourceID{Project: theProject, Kind: writ.KindMachine, Name: "m"}, UID: "u", Hour: hour,
			Used: writ.Used{CPUSeconds: 60, Sent: -5},
		}
		n.send(seal.Report, writ.Report{Node: n.id, Incarnation: 3, Round: 7, Usage: []writ.Usage{usage, {UID: "of no project"}}})
		foreign := usage
		foreign.Node = n.id
		liar.send(seal.Report, writ.Report{Node: n.id, Incarnation: 9, Round: 9, Usage: []writ.Usage{foreign}}) // in another's name: nothing
		time.Sleep(2 * time.Second)
		synctest.Wait()
		told := s.eventsOf("usage")
		want := usage
		want.Node, want.Sent = n.id, 0
		if len(told) != 1 {
			t.Fatalf("%d events about usage, want 1", len(told))
		}
		if diff := cmp.Diff(&want, told[0].Usage); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := n.toldReport(); got == nil || *got != (writ.Told{Incarnation: 3, Round: 7}) {
			t.Errorf("the node was told that %+v is on disk", got)
		}
		if got := liar.toldReport(); got != nil {
			t.Errorf("the liar was told %+v", got)
		}
	})
}
