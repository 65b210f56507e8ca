package coord

import (
	"slices"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// Changes of a node are events. Its last heartbeat and unknown nodes that wait for admission are not.
//
// Promise: Operation: Lists of nodes show the current beat, liveness and fault; while a datacenter is unreachable,
// its nodes are shown as not ready.
// How: The coordinator asks the datacenters for each list and accepts from each only its own nodes.
// Also: TestListsComeInPages.
func TestNodeListShowsLiveState(t *testing.T) {
	p := start(t, nil)
	old, now := time.Now().Add(-time.Hour).UTC(), time.Now().UTC().Truncate(time.Millisecond)
	waits := writ.Node{ID: "n9", Datacenter: "elsewhere", Name: "web1", Key: "SHA256:x", Admission: writ.AdmissionPending, Liveness: writ.LivenessSilent}
	s := connect(p, vienna, func(s *supervisor) {
		s.nodes = []link.NodeNow{
			{ID: "n1", Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady, LastBeat: now, Slots: 2, Capacity: writ.Capacity{CPUs: 4}},
			{ID: "n7", Admission: writ.AdmissionRemoved, Liveness: writ.LivenessLost, Fault: "said by another datacenter"},
			{ID: "n9", Waiting: &waits},
			{ID: "n8", Waiting: &writ.Node{ID: "n1", Name: "forged", Admission: writ.AdmissionApproved}},
		}
	})
	s.tell(writ.Event{Node: &writ.Node{
		ID: "n1", Datacenter: vienna, Name: "node-1", Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen,
		Liveness: writ.LivenessSilent, LastBeat: old, // from before its first heartbeat, when its capacity was unknown
	}})
	list := func() []writ.Node {
		page, err := api.Answer[api.NodePage](p.client.ListNodes(t.Context(), &api.ListNodesParams{}))
		if err != nil {
			t.Fatal(err)
		}
		return page.Items
	}
	p.await("both are listed", func() bool { return len(list()) == 2 })
	got := list()
	if n := got[0]; n.ID != "n1" || n.Liveness != writ.LivenessReady || !n.LastBeat.Equal(now) || n.Slots != 2 || n.Capacity.CPUs != 4 {
		t.Errorf("the node that beats is %+v", n)
	}
	if n := got[1]; n.ID != "n9" || n.Datacenter != vienna || n.Admission != writ.AdmissionPending {
		t.Errorf("the node that waits is %+v", n)
	}
	decided := []writ.Decision{{Decision: "label", Signer: "alice"}}
	s.nodes[0].Revision, s.nodes[0].Labels, s.nodes[0].Decided = 3, map[string]string{"disk": "ssd"}, decided
	if n := list()[0]; n.Revision != 3 || n.Labels["disk"] != "ssd" || len(n.Decided) != 1 {
		t.Errorf("after a decision whose event is still to come the node is %+v", n)
	}
	// The event arrives after the answer to the statement.
	s.nodes[0].Admission, s.nodes[0].Gone = writ.AdmissionRemoved, true
	s.nodes[0].Decided = []writ.Decision{{Decision: "remove", Signer: "alice", Time: time.Now()}}
	if got := list(); len(got) != 1 || got[0].ID != "n9" {
		t.Errorf("nodes after a removal = %+v", got)
	}
	removed, err := api.Answer[api.NodePage](p.client.ListNodes(t.Context(), &api.ListNodesParams{Admission: new(writ.AdmissionRemoved)}))
	if err != nil || len(removed.Items) != 1 || removed.Items[0].ID != "n1" || removed.Items[0].Admission != writ.AdmissionRemoved || !removed.Items[0].Gone {
		t.Errorf("after a node was removed, the removed ones are %+v, %v", removed.Items, err)
	}
	s.nodes[0].Admission = writ.AdmissionApproved
	s.leave()
	if got := list(); len(got) != 1 || got[0].Liveness != writ.LivenessUnknown || !got[0].LastBeat.Equal(old) {
		t.Errorf("while the datacenter is away: %+v", got)
	}
	other := connect(p, graz, func(s *supervisor) {
		s.nodes = []link.NodeNow{{ID: "n7", Admission: writ.AdmissionApproved, Liveness: writ.LivenessReady, LastBeat: now}}
	})
	other.tell(writ.Event{Node: &writ.Node{ID: "n7", Datacenter: graz, Name: "node-7", Admission: writ.AdmissionApproved}})
	s = connect(p, vienna, func(again *supervisor) { again.nodes = s.nodes })
	p.await("the node of the other datacenter in the list", func() bool { return len(list()) == 3 })
	if n := list()[slices.IndexFunc(list(), func(n writ.Node) bool { return n.ID == "n7" })]; n.Liveness != writ.LivenessReady || n.Fault != "" {
		t.Errorf("another datacenter speaks for the node %+v", n)
	}
}
