package coord

import (
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/ledger"
	"writ/supervisor/link"
)

// A reader of one project sees no nodes, so the list itself marks outdated states.
//
// Promise: Readers and roles: A list of resources marks outdated states, also for readers of one project.
// How: The coordinator adds the state of the node or datacenter, and since when it is unheard.
// Also: TestStatusHasTheAgeOfItsFacts.
func TestListMarksOutdatedStates(t *testing.T) {
	t.Parallel()
	p := start(t, nil)
	beat := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := connect(p, vienna, func(s *supervisor) {
		now := func(id writ.NodeID, liveness writ.Liveness) link.NodeNow {
			return link.NodeNow{ID: id, Admission: writ.AdmissionApproved, Liveness: liveness, LastBeat: beat}
		}
		s.nodes = []link.NodeNow{now("n1", writ.LivenessReady), now("n2", writ.LivenessSilent), now("n3", writ.LivenessLost),
			{ID: "n1", Waiting: &writ.Node{ID: "n1"}, Liveness: writ.LivenessLost}}
	})
	node := func(id writ.NodeID, admission writ.Admission, liveness writ.Liveness) writ.Event {
		return writ.Event{Node: &writ.Node{ID: id, Name: string(id), Admission: admission, Liveness: liveness, LastBeat: beat}}
	}
	on := func(name string, id writ.NodeID) writ.Event {
		return writ.Event{Resource: &writ.Resource{ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindVolume, Name: name}, Node: id}}
	}
	// Events report the liveness late.
	s.tell(node("n1", writ.AdmissionApproved, writ.LivenessSilent), node("n2", writ.AdmissionApproved, writ.LivenessReady),
		node("n3", writ.AdmissionApproved, writ.LivenessReady), node("n4", writ.AdmissionRemoved, writ.LivenessReady),
		on("a", "n1"), on("b", "n2"), on("c", "n3"), on("d", "n4"), on("e", ""))
	p.await("resources", func() bool {
		list, err := p.Ledger.Resources(t.Context(), ledger.ResourceFilter{}, ledger.Page{})
		return err == nil && len(list.Items) == 5
	})
	check := func(want map[string]api.UnheardState, since func(time.Time) bool) {
		t.Helper()
		page, err := api.Answer[api.ResourcePage](p.client.ListResources(t.Context(), &api.ListResourcesParams{}))
		if err != nil || len(page.Items) != 5 {
			t.Fatalf("%+v, %v", page, err)
		}
		for _, r := range page.Items {
			switch u := r.Unheard; {
			case u == nil && want[r.Name] != "", u != nil && u.State != want[r.Name]:
				t.Errorf("%s: %+v, want %q", r.Name, u, want[r.Name])
			case u != nil && !since(u.Since):
				t.Errorf("%s is unheard since %s", r.Name, u.Since)
			}
		}
	}
	check(map[string]api.UnheardState{"b": api.UnheardStateSilent, "c": api.UnheardStateLost, "d": api.UnheardStateLost}, beat.Equal)

	datacenter := func() api.Datacenter {
		list, err := api.Answer[api.DatacenterList](p.client.ListDatacenters(t.Context()))
		if err != nil || len(list.Items) != 2 || list.Items[1].ID != vienna || !list.Items[0].Heard.IsZero() {
			t.Fatalf("%+v, %v", list, err)
		}
		return list.Items[1]
	}
	if d := datacenter(); !d.Heard.IsZero() {
		t.Errorf("a connected datacenter was last heard of at %s", d.Heard)
	}
	before := time.Now()
	s.leave()
	if d := datacenter(); d.Heard.Before(before) || d.Heard.After(time.Now()) {
		t.Errorf("the datacenter left at %s, and was last heard of at %s", before, d.Heard)
	}
	away := api.UnheardStateAway
	check(map[string]api.UnheardState{"a": away, "b": away, "c": away, "d": away, "e": away}, datacenter().Heard.Equal)

	// A restored journal without events and without nodes.
	restored := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	connect(p, vienna, func(s *supervisor) { s.journal, s.restored = "restored", restored })
	if d := datacenter(); !d.Restored.Equal(restored) {
		t.Errorf("the journal was restored at %s", d.Restored)
	}
	forgotten := api.UnheardStateForgotten
	check(map[string]api.UnheardState{"a": forgotten, "b": forgotten, "c": forgotten, "d": api.UnheardStateLost}, beat.Equal)
	nodes, err := api.Answer[api.NodePage](p.client.ListNodes(t.Context(), &api.ListNodesParams{}))
	if err != nil || len(nodes.Items) != 3 {
		t.Fatalf("%+v, %v", nodes, err)
	}
	for _, n := range nodes.Items {
		if n.Liveness != writ.LivenessForgotten {
			t.Errorf("node %s is %s", n.Name, n.Liveness)
		}
	}
}
