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
			t.Errorf("after an old report and one of another node (-want +got):\n%s", diff)
		}
		told := len(s.eventsOf("resource"))
		report(n, 3, "its quota is gone")
		if again := len(s.eventsOf("resource")); again != told {
			t.Errorf("the same again is told again: %d events, then %d", told, again)
		}
		n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: 4, Drifts: []writ.ResourceDrift{
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
		if last := s.lastAbout(n.id); len(last.Orphans) != 1 {
			t.Errorf("orphans of the node: %+v", last.Orphans)
		} else if last.Network == nil || last.Network.Denied != 7 || !last.Network.Overlay.Connected || len(last.Network.Overlay.Peers) > 100 {
			t.Errorf("networks of the node: %+v", last.Network)
		}
	})
}

// How a resource stands is what the last operation answered or its node saw last, and an event when that changes.
func TestHowAResourceStandsBecomesPartOfIt(t *testing.T) {
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
			t.Errorf("the node was told that %+v is on disk", got)
		}
		s.halt()
		s.start()
		time.Sleep(5 * time.Second)
		report(n, 4, made.UID, "running")
		exited := writ.Standing{State: "running", Address: "fd00::7", Exit: &writ.Exit{Code: 137, OutOfMemory: true}}
		for round := range int64(2) { // said twice, it is one event
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
		want := []string{"x", "paused fd00::7", "running fd00::7", "running fd00::7, " + exited.Exit.String(), "running fd00::7 unhealthy, " + exited.Exit.String(), "x"} // its operations answer "x"
		if diff := cmp.Diff(want, states); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A delete that failed is booked when its node says that it has done it after all; what went by itself stays, and says so.
func TestALateDeleteOfANodeIsRecorded(t *testing.T) {
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
		var said []string
		for _, e := range s.eventsOf("resource")[2:] {
			said = append(said, fmt.Sprintf("%s %s deleted=%t", e.Resource.Name, e.Resource.State, e.Resource.Deleted))
		}
		want := []string{a.Name + " deleting deleted=false", a.Name + " deleting deleted=true", b.Name + " gone deleted=false"}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// What a node mended is an event once, however often its report comes and whoever was restarted meanwhile.
func TestARepairIsOneEventOfItsResource(t *testing.T) {
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
		// numbers are those of the last thing that was mended, in each event.
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
			t.Errorf("the node was told that %+v is on disk", got)
		}
		report(other, 1, 1, 1, 2) // what is not on it
		report(n, 1, 2, 1)
		want("told again, and by a stranger", 1)
		s.halt()
		s.start()
		time.Sleep(5 * time.Second)
		report(n, 1, 1, 1) // out of a queue that came back from a snapshot
		report(n, 1, 3, 1, 2)
		want("told to the next supervisor, with another one", 1, 2)
		report(n, 2, 1, 4) // the node was restarted, and tells of the last of four
		want("of the node's next incarnation", 1, 2, 6)

		for round := int64(2); round < 40; round++ {
			report(n, 2, round, round+3)
		}
		if got := len(numbers()); got > 2*10 {
			t.Errorf("what breaks again and again is told %d times within minutes", got)
		}
		time.Sleep(time.Hour)
		report(n, 2, 40, 50)
		got := numbers()
		if got[len(got)-1] != 52 {
			t.Errorf("the next hour tells of number %d, want 52", got[len(got)-1])
		}
		events := s.eventsOf("resource")
		if mended := events[len(events)-1].Resource.Mended; len(mended) != 5 || mended[0].Number != 41 {
			t.Errorf("it keeps %+v", mended)
		}
		if got := s.lastAbout(n.id).Mended; got != 7 {
			t.Errorf("its node has mended %d things", got)
		}
	})
}

// Some times of a node's clock are no JSON. What it mended then is told all the same, and no line of the log has an error without a code.
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
		if told := len(s.eventsOf("resource")) - before; told != len(times) {
			t.Errorf("%d of %d repairs were told", told, len(times))
		}
		if _, bad := s.refusals(); len(bad) > 0 {
			t.Errorf("lines without a code that is known:\n%s", strings.Join(bad, ""))
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
		liar.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 9, Round: 9, Usage: []writ.Usage{foreign}}) // in another's name: nothing
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
		if got := n.acknowledgedReport(); got == nil || *got != (writ.ReportID{Incarnation: 3, Round: 7}) {
			t.Errorf("the node was told that %+v is on disk", got)
		}
		if got := liar.acknowledgedReport(); got != nil {
			t.Errorf("the liar was told %+v", got)
		}
	})
}

// make makes a machine on a node and returns it.
func (s *sim) make(name, node string) *writ.Resource {
	s.t.Helper()
	s.wantState(s.submit(`machine := import("machine")`+"\n"+`machine.create("`+name+`", {cpus: 1, memory_mib: 64}, {node: "`+node+`"})`), writ.RunSucceeded)
	events := s.eventsOf("resource")
	return events[len(events)-1].Resource
}

// usageOf is what a resource may have used within this hour.
func (s *sim) usageOf(r *writ.Resource) writ.Usage {
	return writ.Usage{ResourceID: r.ResourceID, UID: r.UID, Hour: s.clock.now().UTC().Truncate(time.Hour), Used: writ.Used{CPUSeconds: 60}}
}

// What a node says that resources used becomes somebody's bill: only what it has counts, or had until of late, for hours in which that was there.
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
			with(made, func(u *writ.Usage) { u.Hour = u.Hour.Add(-24 * time.Hour) }), // before it was made
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
				t.Error("a node whose usage does not count was not told, and says it again for ever")
			}
		}
		s.clock.set(journal.UsageGrace + 2*time.Hour)
		n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: 2, Usage: []writ.Usage{gone, made}})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := len(s.eventsOf("usage")); got > 2 {
			t.Errorf("hours of long ago are charged: %d events", got)
		}
	})
}

// A node that reports without a pause costs as much as one that does not: of all that come within a second the newest counts.
//
// Promise: Nodes and Redis: A node that sends reports or beats continuously costs a supervisor about as much as an
// honest node.
// How: Per node and second, the supervisor reads the newest report, four beats and five events; the rest waits for a
// later report.
// Also: TestOldBeatsAreAnsweredSeldom, TestANodeHasItsShareOfNews.
func TestReportsWithoutAPauseAreTakenOnceASecond(t *testing.T) {
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
			t.Errorf("%d reports within %d seconds became %d events", seconds*each, seconds, got)
		}
		if got, want := events[len(events)-1].Resource.State, fmt.Sprintf("s%d", seconds*each-1); got != want {
			t.Errorf("it is told to be %s, and was %s last", got, want)
		}
	})
}

// Of a node whose resources change without end more is told later, and it is told so: what is left comes with a later report.
func TestANodeHasItsShareOfNews(t *testing.T) {
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
		for round := range int64(5) { // what may be told at once is used up
			n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: round + 1, Usage: usage})
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		if got := len(s.eventsOf("usage")); got < 2000 || got > 2100 {
			t.Errorf("%d events follow from the reports of one node within 10 seconds", got)
		}
		if got := n.acknowledgedReport(); got == nil || got.Round != 4 {
			t.Errorf("the node was told of %+v; the fifth report was too much", got)
		}
		state = "later"
		report(6)
		time.Sleep(2 * time.Second)
		report(7)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		events := s.eventsOf("resource")
		if len(events) != before+1 || events[before].Resource.State != "later" {
			t.Errorf("what was left is not told later: %d events", len(events)-before)
		}
		if got := n.acknowledgedReport(); got == nil || got.Round < 6 {
			t.Errorf("the node was told of %+v", got)
		}
	})
}
