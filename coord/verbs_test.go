package coord

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/ledger"
	"writ/supervisor/link"
)

// A supervisor may request only rosters from a coordinator: neither data of others nor verbs of a coordinator.
func TestSupervisorAsksForRostersOnly(t *testing.T) {
	p := start(t, nil)
	welcomed := make(chan struct{}, 1)
	s := connect(p, graz, func(s *supervisor) {
		s.dialer.Welcomed = func(context.Context, link.Welcome) { welcomed <- struct{}{} }
	})
	<-welcomed // its end of the link is ready
	for _, verb := range append([]link.Verb{"", "runs", "shutdown"}, link.ToSupervisor...) {
		var answer link.Rosters
		err := s.dialer.Request(t.Context(), verb, link.RosterVersion{}, &answer)
		if verb == link.VerbRoster {
			if err != nil || len(answer.Signed) != 1 {
				t.Errorf("%s: %d rosters, %v", verb, len(answer.Signed), err)
			}
		} else if writ.CodeOf(err) != writ.CodeVerbUnsupported {
			t.Errorf("%q: %v", verb, err)
		}
	}
}

// Reports of a datacenter about runs, nodes and resources of another one change none of these, and watchers do not
// receive them.
func TestDatacenterReportsOnlyForItself(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, nil)
	sub, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	p.await("accepted", func() bool { return !p.run(sub.Run).Accepted.IsZero() })
	volume := writ.Resource{ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindVolume, Name: "v"}, UID: "u", Datacenter: vienna}
	node := writ.Node{ID: "n1", Name: "node-1", Datacenter: vienna, Admission: writ.AdmissionApproved}
	s.tell(writ.Event{Node: &node}, writ.Event{Resource: &volume}, writ.Event{Call: &writ.Call{Run: sub.Run, Seq: 1, State: writ.CallRunning}})
	p.await("all events of vienna", func() bool {
		calls, err := p.Ledger.Calls(t.Context(), sub.Run, ledger.Page{})
		return err == nil && len(calls.Items) > 0
	})

	forged := writ.Run{ID: sub.Run, Datacenter: vienna, Project: blog, ProjectName: "forged", State: writ.RunFailed, Reason: "forged", Accepted: time.Now(), Ended: time.Now()}
	gone, removed := volume, node
	gone.Deleted, removed.Admission = true, writ.AdmissionRemoved
	other := connect(p, graz, func(s *supervisor) {
		s.nodes = []link.NodeNow{{ID: "n1", Admission: writ.AdmissionRemoved, Fault: "forged"}}
	})
	last := writ.Node{ID: "last", Name: "last", Admission: writ.AdmissionApproved}
	other.tell(
		writ.Event{Run: &forged}, writ.Event{Call: &writ.Call{Run: sub.Run, Seq: 1, State: writ.CallFailed}}, writ.Event{Call: &writ.Call{Run: sub.Run, Seq: 2}},
		writ.Event{Log: &writ.LogLine{Run: sub.Run, Ordinal: 1, Text: "forged"}}, writ.Event{Node: &removed}, writ.Event{Resource: &gone},
		writ.Event{Usage: &writ.Usage{ResourceID: volume.ResourceID, UID: "u", Node: "n1", Hour: time.Now().Truncate(time.Hour), Used: writ.Used{Sent: 1}}}, writ.Event{Node: &last},
	)
	p.await("all events of graz", func() bool {
		list, err := p.Ledger.Nodes(t.Context(), ledger.NodeFilter{Datacenter: graz}, ledger.Page{})
		return err == nil && len(list.Items) > 0 && list.Items[0].ID == "last"
	})
	if run := p.run(sub.Run); run.State != "accepted" || run.Datacenter != vienna || run.Project != shop || run.Reason != "" {
		t.Errorf("run: %+v", run)
	}
	if calls, err := p.Ledger.Calls(t.Context(), sub.Run, ledger.Page{}); err != nil || len(calls.Items) != 1 || calls.Items[0].State != writ.CallRunning {
		t.Errorf("calls: %+v, %v", calls.Items, err)
	}
	if nodes, err := p.live.Nodes(t.Context(), ledger.NodeFilter{Datacenter: vienna}, ledger.Page{}); err != nil || len(nodes.Items) != 1 || nodes.Items[0].Admission != writ.AdmissionApproved || nodes.Items[0].Fault != "" {
		t.Errorf("nodes: %+v, %v", nodes.Items, err)
	}
	if list, err := p.Ledger.Resources(t.Context(), ledger.ResourceFilter{}, ledger.Page{}); err != nil || len(list.Items) != 1 {
		t.Errorf("resources: %+v, %v", list.Items, err)
	}
	if list, err := p.Ledger.Usage(t.Context(), ledger.UsageFilter{}, ledger.Page{}); err != nil || len(list.Items) != 1 || list.Items[0].Datacenter != graz {
		t.Errorf("usage: %+v, %v", list.Items, err) // recorded under its own name
	}
	events, _, err := p.Ledger.Events(t.Context(), 0, ledger.EventFilter{Run: sub.Run}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var heard []string
	for _, e := range events {
		if e.Datacenter != vienna && e.Submission == nil {
			t.Errorf("watcher of the run received %+v", e)
		}
		heard = append(heard, e.Topic())
	}
	if diff := cmp.Diff([]string{"submission", "submission", "call"}, heard); diff != "" {
		t.Errorf("topics of the watcher (-want +got):\n%s", diff)
	}
}
