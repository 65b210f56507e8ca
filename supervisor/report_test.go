package supervisor_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity/envelope"
	"writ/supervisor/journal"
)

// eventsOf returns the events of a topic.
func (s *sim) eventsOf(topic string) (all []writ.Event) {
	s.t.Helper()
	events, err := s.journal.Events(s.t.Context(), 0, 10_000)
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(events, func(e writ.Event) bool { return e.Topic() != topic })
}

func TestDriftBecomesPartOfItsResource(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
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
			from.send(envelope.Report, writ.Report{
				Node: from.id, Incarnation: 1, Round: round, Drifts: []writ.ResourceDrift{{ResourceID: resource.ResourceID, UID: resource.UID, Lasts: lasts}},
				Findings: writ.Findings{Orphans: []writ.Orphan{{Module: "volume", Kind: "subvolume", Name: "v0"}},
					Network: &writ.NodeNetwork{Denied: 7, Overlay: &writ.Overlay{Connected: true, Peers: make([]writ.OverlayPeer, 1000), PeerCount: 1000}}},
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
			t.Errorf("after an old report and a report of another node (-want +got):\n%s", diff)
		}
		earlier := len(s.eventsOf("resource"))
		report(n, 3, "its quota is gone")
		if again := len(s.eventsOf("resource")); again != earlier {
			t.Errorf("an unchanged report caused events: %d, then %d", earlier, again)
		}
		n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: 4, Drifts: []writ.ResourceDrift{
			{ResourceID: resource.ResourceID, Lasts: []string{"it cannot be looked after"}},
		}})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"it cannot be looked after"}, drift()); diff != "" {
			t.Errorf("from a driver without the uid (-want +got):\n%s", diff)
		}
		report(n, 5)
		if got := drift(); len(got) > 0 {
			t.Errorf("drift after the repair = %q, want none", got)
		}
		if last := s.lastAbout(n.id); len(last.Orphans) != 1 {
			t.Errorf("orphans of the node = %+v", last.Orphans)
		} else if last.Network == nil || last.Network.Denied != 7 || !last.Network.Overlay.Connected || len(last.Network.Overlay.Peers) > 100 {
			t.Errorf("network of the node = %+v", last.Network)
		}
	})
}

// The state of a resource is the result of the last operation or the last report of its node, whichever is newer. A
// change is an event.
func TestResourceStateIsStored(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n, other := s.join("n1"), s.join("n2")
		s.wantState(s.submit(`machine := import("machine")`+"\n"+`machine.create("m", {cpus: 1, memory_mib: 64}, {node: "n1"})`), writ.RunSucceeded)
		made := s.eventsOf("resource")[0].Resource
		report := func(from *testNode, round int64, uid writ.UID, state string) {
			t.Helper()
			from.send(envelope.Report, writ.Report{Node: from.id, Incarnation: 1, Round: round, States: []writ.ResourceState{
				{ResourceID: made.ResourceID, UID: uid, Standing: writ.Standing{State: state, Address: "fd00::7"}},
			}})
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		report(n, 1, made.UID, "paused")
		report(n, 2, made.UID, "paused")
		report(other, 1, made.UID, "not mine")
		report(n, 3, "another", "of one that was there before")
		if got := n.acknowledgedReport(); got == nil || got.Round != 3 {
			t.Errorf("acknowledged report = %+v, want round 3", got)
		}
		s.halt()
		s.start()
		time.Sleep(5 * time.Second)
		report(n, 4, made.UID, "running")
		exited := writ.Standing{State: "running", Address: "fd00::7", Exit: &writ.Exit{Code: 137, OutOfMemory: true}}
		for round := range int64(2) { // two reports of one exit are one event
			n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: 5 + round, States: []writ.ResourceState{
				{ResourceID: made.ResourceID, UID: made.UID, Standing: exited},
			}})
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		unhealthy := exited
		unhealthy.Health = "unhealthy"
		n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: 7, States: []writ.ResourceState{
			{ResourceID: made.ResourceID, UID: made.UID, Standing: unhealthy},
		}})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s.wantState(s.submit(`machine := import("machine")`+"\n"+`machine.stop(machine.get("m"))`), writ.RunSucceeded)
		var states []string
		for _, e := range s.eventsOf("resource") {
			text := strings.TrimSpace(e.Resource.State + " " + e.Resource.Address + " " + e.Resource.Health)
			if e.Resource.Exit != nil {
				text += ", " + e.Resource.Exit.String()
			}
			states = append(states, text)
		}
		want := []string{"x", "paused fd00::7", "running fd00::7", "running fd00::7, " + exited.Exit.String(), "running fd00::7 unhealthy, " + exited.Exit.String(), "x"} // operations return the state "x"
		if diff := cmp.Diff(want, states); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A failed delete is recorded when its node reports that the resource was deleted later. A resource that disappeared by
// itself stays, with the state "gone".
func TestLateDeleteOfNodeIsRecorded(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		s.wantState(s.submit(`volume := import("volume")`+"\n"+`volume.create("a", {size_gib: 1}, {node: "n1"})`+"\n"+`volume.create("b", {size_gib: 1}, {node: "n1"})`), writ.RunSucceeded)
		made := s.eventsOf("resource")
		round := int64(0)
		report := func(of *writ.Resource, uid writ.UID, state string) {
			t.Helper()
			round++
			n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: round, States: []writ.ResourceState{{ResourceID: of.ResourceID, UID: uid, Standing: writ.Standing{State: state}}}})
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		a, b := made[0].Resource, made[1].Resource
		report(a, a.UID, "deleting")
		report(a, "another", "gone")
		report(a, "", "gone")
		report(b, b.UID, "gone")
		var got []string
		for _, e := range s.eventsOf("resource")[2:] {
			got = append(got, fmt.Sprintf("%s %s deleted=%t", e.Resource.Name, e.Resource.State, e.Resource.Deleted))
		}
		want := []string{a.Name + " deleting deleted=false", a.Name + " deleting deleted=true", b.Name + " gone deleted=false"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A repair by a node is one event, whatever number of reports contain it and whichever process was restarted.
func TestRepairIsOneEventOfItsResource(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n, other := s.join("n1"), s.join("n2")
		s.wantState(s.submit(`volume := import("volume")`+"\n"+`volume.create("v", {size_gib: 1}, {node: "n1"})`), writ.RunSucceeded)
		resource := s.eventsOf("resource")[0].Resource
		before := len(s.eventsOf("resource"))
		at := time.Now().Add(-time.Minute).Truncate(time.Millisecond).UTC()
		report := func(from *testNode, incarnation, round int64, counts ...int64) {
			t.Helper()
			r := writ.Report{Node: from.id, Incarnation: incarnation, Round: round, Findings: writ.Findings{Mended: 7}}
			for _, count := range counts {
				r.Mendings = append(r.Mendings, writ.NodeMending{
					ResourceID: resource.ResourceID, UID: resource.UID, Count: count, Time: at.UnixMilli(), What: "its process had died",
				})
			}
			from.send(envelope.Report, r)
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		// numbers returns the number of the last repair in each event.
		numbers := func() (all []int64) {
			t.Helper()
			for _, e := range s.eventsOf("resource")[before:] {
				mended := e.Resource.Mended
				all = append(all, mended[len(mended)-1].Number)
			}
			return all
		}
		want := func(what string, want ...int64) {
			t.Helper()
			if diff := cmp.Diff(want, numbers()); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", what, diff)
			}
		}
		report(n, 1, 1, 1)
		want("mended once", 1)
		last := s.eventsOf("resource")[before].Resource
		if diff := cmp.Diff([]writ.Mending{{Number: 1, Time: at, What: "its process had died"}}, last.Mended); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := n.acknowledgedReport(); got == nil || *got != (writ.ReportID{Incarnation: 1, Round: 1}) {
			t.Errorf("acknowledged report = %+v", got)
		}
		report(other, 1, 1, 1, 2) // about a resource of another node
		report(n, 1, 2, 1)
		want("a repeated and a foreign report", 1)
		s.halt()
		s.start()
		time.Sleep(5 * time.Second)
		report(n, 1, 1, 1) // replayed by a queue that was restored from a snapshot
		report(n, 1, 3, 1, 2)
		want("a report to the next supervisor with another repair", 1, 2)
		report(n, 2, 1, 4) // the node was restarted and reports the last of four repairs
		want("a report of the next incarnation", 1, 2, 6)

		for round := int64(2); round < 40; round++ {
			report(n, 2, round, round+3)
		}
		if got := len(numbers()); got > 2*10 {
			t.Errorf("repeated repairs caused %d events within minutes, want at most 20", got)
		}
		time.Sleep(time.Hour)
		report(n, 2, 40, 50)
		got := numbers()
		if got[len(got)-1] != 52 {
			t.Errorf("last repair after an hour = %d, want 52", got[len(got)-1])
		}
		events := s.eventsOf("resource")
		if mended := events[len(events)-1].Resource.Mended; len(mended) != 5 || mended[0].Number != 41 {
			t.Errorf("stored repairs = %+v", mended)
		}
		if got := s.lastAbout(n.id).Mended; got != 7 {
			t.Errorf("repairs of the node = %d, want 7", got)
		}
	})
}

// Some times of a node's clock cannot be encoded in JSON. The repair is reported anyway, and no error is logged without
// a code.
func TestRepairWithInvalidTimeIsReported(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		s.wantState(s.submit(`volume := import("volume")`+"\n"+`volume.create("v", {size_gib: 1}, {node: "n1"})`), writ.RunSucceeded)
		resource := s.eventsOf("resource")[0].Resource
		before := len(s.eventsOf("resource"))
		times := []int64{math.MinInt64, -1 << 50, 1 << 50, math.MaxInt64}
		for i, at := range times {
			count := int64(i + 1)
			n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: count, Mendings: []writ.NodeMending{
				{ResourceID: resource.ResourceID, UID: resource.UID, Count: count, Time: at, What: "its process had died"},
			}})
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		if reported := len(s.eventsOf("resource")) - before; reported != len(times) {
			t.Errorf("reported %d of %d repairs", reported, len(times))
		}
		if _, bad := s.refusals(); len(bad) > 0 {
			t.Errorf("lines without a known code:\n%s", strings.Join(bad, ""))
		}
	})
}

func TestUsageIsAcknowledgedAfterItIsOnDisk(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n, liar := s.join("n1"), s.join("n2")
		usage := s.usageOf(s.make("m", "n1"))
		usage.Sent = -5
		n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 3, Round: 7, Usage: []writ.Usage{usage, {UID: "of no project"}}})
		foreign := usage
		foreign.Node = n.id
		liar.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 9, Round: 9, Usage: []writ.Usage{foreign}}) // in the name of another node: ignored
		time.Sleep(2 * time.Second)
		synctest.Wait()
		events := s.eventsOf("usage")
		want := usage
		want.Node, want.Sent = n.id, 0
		if len(events) != 1 {
			t.Fatalf("got %d events about usage, want 1", len(events))
		}
		if diff := cmp.Diff(&want, events[0].Usage); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := n.acknowledgedReport(); got == nil || *got != (writ.ReportID{Incarnation: 3, Round: 7}) {
			t.Errorf("acknowledged report = %+v", got)
		}
		if got := liar.acknowledgedReport(); got != nil {
			t.Errorf("acknowledged report of the liar = %+v, want none", got)
		}
	})
}

// make creates a machine on a node and returns it.
func (s *sim) make(name, node string) *writ.Resource {
	s.t.Helper()
	s.wantState(s.submit(`machine := import("machine")`+"\n"+`machine.create("`+name+`", {cpus: 1, memory_mib: 64}, {node: "`+node+`"})`), writ.RunSucceeded)
	events := s.eventsOf("resource")
	return events[len(events)-1].Resource
}

// usageOf returns a plausible usage of a resource in this hour.
func (s *sim) usageOf(r *writ.Resource) writ.Usage {
	return writ.Usage{ResourceID: r.ResourceID, UID: r.UID, Hour: s.clock.now().UTC().Truncate(time.Hour), Used: writ.Used{CPUSeconds: 60}}
}

// Projects are billed for the usage that nodes report. Usage counts only for resources that the node has, or had until
// recently, in the hours of their existence.
//
// Promise: Nodes and Redis: A node charges a project only for resources that it holds or held within 31 days, and
// only for the hours since their creation.
// How: The supervisor compares usage with the resources in its journal.
func TestNodeChargesOnlyItsResources(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n, liar := s.join("n1"), s.join("n2")
		made, gone := s.usageOf(s.make("m", "n1")), s.usageOf(s.make("gone", "n1"))
		s.wantState(s.submit(`machine := import("machine")`+"\n"+`machine.delete("gone")`), writ.RunSucceeded)
		with := func(u writ.Usage, change func(u *writ.Usage)) writ.Usage {
			change(&u)
			return u
		}
		none := []writ.Usage{
			with(made, func(u *writ.Usage) { u.Project = "7d2c3c1e-7d0b-4bb5-9a7e-5a1d2f0c9b11" }),
			with(made, func(u *writ.Usage) { u.Name = "another" }),
			with(made, func(u *writ.Usage) { u.UID = "another" }),
			with(made, func(u *writ.Usage) { u.Hour = u.Hour.Add(time.Minute) }),
			with(made, func(u *writ.Usage) { u.Hour = u.Hour.Add(-24 * time.Hour) }), // before its creation
			with(made, func(u *writ.Usage) { u.Hour = u.Hour.Add(24 * time.Hour) }),
			with(gone, func(u *writ.Usage) { u.Name = "m" }),
		}
		much := with(gone, func(u *writ.Usage) { u.CPUSeconds, u.Received = 1<<60, 1<<60 })
		n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: 1, Usage: append(none, made, much)})
		liar.send(envelope.Report, writ.Report{Node: liar.id, Incarnation: 1, Round: 1, Usage: []writ.Usage{made, gone}})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		names := map[writ.NodeID]string{n.id: "n1", liar.id: "n2"}
		var charged []string
		for _, e := range s.eventsOf("usage") {
			charged = append(charged, fmt.Sprintf("%s on %s: %d CPU seconds, %d bytes", e.Usage.Name, names[e.Usage.Node], e.Usage.CPUSeconds, e.Usage.Received))
		}
		if diff := cmp.Diff([]string{"m on n1: 60 CPU seconds, 0 bytes", "gone on n1: 14745600 CPU seconds, 360000000000000 bytes"}, charged); diff != "" {
			t.Errorf("charged (-want +got):\n%s", diff)
		}
		for _, from := range []*testNode{n, liar} {
			if got := from.acknowledgedReport(); got == nil {
				t.Error("a report with ignored usage was not acknowledged, so the node repeats it")
			}
		}
		s.clock.set(journal.UsageGrace + 2*time.Hour)
		n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: 2, Usage: []writ.Usage{gone, made}})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := len(s.eventsOf("usage")); got > 2 {
			t.Errorf("old hours were charged: %d events", got)
		}
	})
}

// Continuous reports of a node cost no more than normal ones: the newest report of each second counts.
//
// Promise: Nodes and Redis: A node that sends reports or beats continuously costs a supervisor about as much as an
// honest node.
// How: Per node and second, the supervisor reads the newest report, four beats and five events; the rest waits for a
// later report.
// Also: TestOldBeatsAreAnsweredSeldom, TestEventsOfNodeAreLimited.
func TestContinuousReportsCountOncePerSecond(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		made := s.make("m", "n1")
		before := len(s.eventsOf("resource"))
		const seconds, each = 10, 50
		for i := range seconds * each {
			n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: int64(i + 1), States: []writ.ResourceState{
				{ResourceID: made.ResourceID, UID: made.UID, Standing: writ.Standing{State: fmt.Sprintf("s%d", i)}},
			}})
			time.Sleep(time.Second / each)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		events := s.eventsOf("resource")
		if got := len(events) - before; got < seconds/2 || got > seconds+2 {
			t.Errorf("%d reports within %d seconds caused %d events", seconds*each, seconds, got)
		}
		if got, want := events[len(events)-1].Resource.State, fmt.Sprintf("s%d", seconds*each-1); got != want {
			t.Errorf("state in the last event = %s, want %s", got, want)
		}
	})
}

// If the resources of a node change without end, some changes are not reported at once. The node gets no
// acknowledgement for them, so a later report contains them again.
func TestEventsOfNodeAreLimited(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		made := s.make("m", "n1")
		before := len(s.eventsOf("resource"))
		state := ""
		report := func(round int64) {
			n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: round, States: []writ.ResourceState{{ResourceID: made.ResourceID, UID: made.UID, Standing: writ.Standing{State: state}}}})
		}
		usage := make([]writ.Usage, 0, 500)
		for len(usage) < cap(usage) {
			usage = append(usage, s.usageOf(made))
		}
		for round := range int64(5) { // uses up the burst
			n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: round + 1, Usage: usage})
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		if got := len(s.eventsOf("usage")); got < 2000 || got > 2100 {
			t.Errorf("the reports of one node caused %d events within 10 seconds, want 2000 to 2100", got)
		}
		if got := n.acknowledgedReport(); got == nil || got.Round != 4 {
			t.Errorf("acknowledged report = %+v, want round 4", got)
		}
		state = "later"
		report(6)
		time.Sleep(2 * time.Second)
		report(7)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		events := s.eventsOf("resource")
		if len(events) != before+1 || events[before].Resource.State != "later" {
			t.Errorf("changes that were left out: %d events, want 1", len(events)-before)
		}
		if got := n.acknowledgedReport(); got == nil || got.Round < 6 {
			t.Errorf("acknowledged report = %+v, want round 6 or later", got)
		}
	})
}
