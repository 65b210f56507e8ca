package runner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/testenv"
	"writ/runner"
	"writ/sal"
)

// watchful is a driver that maintains its resources by calling look, and returns usage as their use.
type watchful struct {
	*driver
	mu      sync.Mutex // the test holds it while it changes the fields below and the state that look reads
	look    func(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error)
	orphans []sal.Orphan
	usage   sal.Usage
	stands  map[string]any // values of an observation, "state" and "address"; nil uses those of driver
	mute    bool           // it cannot report the status of networks
	meter   func()         // called by Usage; may be nil
}

func (w *watchful) List(context.Context) ([]writ.ResourceID, error) {
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	var all []writ.ResourceID
	for r := range w.host.things {
		if string(r.Kind) == w.module {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b writ.ResourceID) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (w *watchful) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	seen, err := w.driver.Observe(ctx, resource)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stands != nil {
		seen.Values = w.stands
		seen.State, _ = w.stands["state"].(string)
	}
	return seen, err
}

func (w *watchful) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	return w.look(ctx, resource)
}

func (w *watchful) Network(context.Context) (writ.NodeNetwork, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mute {
		return writ.NodeNetwork{}, errors.New("nobody answers")
	}
	return writ.NodeNetwork{Spoofed: 3}, nil
}

func (w *watchful) Orphans(context.Context) ([]sal.Orphan, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.orphans, nil
}

func (w *watchful) Usage(context.Context, writ.ResourceID) (sal.Usage, error) {
	if w.meter != nil {
		w.meter()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.usage, nil
}

// change changes the driver's answers.
func (w *watchful) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// watched starts a node whose volumes are maintained by w.
func watched(t *testing.T, w *watchful) *node {
	return newFixture(t).fresh(func(r *runner.Runner) { w.put(r) })
}

// put replaces the driver for volumes.
func (w *watchful) put(r *runner.Runner) {
	w.driver = r.Drivers[0].(*driver)
	r.Drivers = append([]sal.Driver{w}, r.Drivers[1:]...)
}

// Promise: Repair and usage: A node checks its resources at its start and every half minute, never during a job, and
// reports unrepaired differences with the resource.
// How: One service of the runner, a signed report, the latest counts.
// Also: TestMaintenanceSkipsAResourceWithAJob, TestHangingInspectionBlocksNoOtherWork,
// TestFailingMeasurementBlocksNoOtherWork, TestOverdueDriverBlocksOnlyItsResource,
// TestDriftBecomesPartOfItsResource.
func TestNodeMaintainsItsResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := map[string][]sal.Drift{}
		w := &watchful{orphans: []sal.Orphan{{Kind: "tap", Name: "wt0"}}}
		w.look = func(_ context.Context, r writ.ResourceID) ([]sal.Drift, error) {
			if r.Name == "blind" {
				return nil, errors.New("no tool")
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			return broken[r.Name], nil
		}
		n := watched(t, w)
		for seq, name := range []string{"blind", "good", "ill"} {
			job := n.job(seq+1, "volume.create", name, nil)
			n.push(job)
			n.await(job.JobKey)
		}
		w.change(func() {
			broken["ill"] = []sal.Drift{{What: "it was unmounted", Mended: true}, {What: "its quota is gone"}}
		})
		quiet(31 * time.Second)
		got := n.lastReport()
		id := func(name string) writ.ResourceID {
			return writ.ResourceID{Project: n.project, Kind: writ.KindVolume, Name: name}
		}
		uid := n.job(1, "volume.create", "x", nil).UID
		want := []writ.ResourceDrift{
			{ResourceID: id("blind"), UID: uid, Lasts: []string{"maintenance failed: no tool"}},
			{ResourceID: id("ill"), UID: uid, Lasts: []string{"its quota is gone"}},
		}
		if diff := cmp.Diff(want, got.Drifts); diff != "" {
			t.Errorf("drift (-want +got):\n%s", diff)
		}
		if got.Network == nil || got.Network.Spoofed != 3 {
			t.Errorf("network in the report = %+v", got.Network)
		}
		if diff := cmp.Diff([]writ.Orphan{{Module: "volume", Kind: "tap", Name: "wt0"}}, got.Orphans); diff != "" {
			t.Errorf("orphans (-want +got):\n%s", diff)
		}

		gone := n.job(4, "volume.create", "blind", nil)
		n.host.remove(gone)
		w.change(func() {
			w.orphans = nil
			delete(broken, "ill")
		})
		quiet(31 * time.Second)
		if got := n.lastReport(); len(got.Drifts)+len(got.Orphans) > 0 {
			t.Errorf("all is well, and the node reports %+v", got)
		}
	})
}

// A file on the host may have any name, and its removal command may not be sendable. The rest of the report is sent.
func TestAnOrphanOfAnyNameIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watchful{look: func(context.Context, writ.ResourceID) ([]sal.Drift, error) { return nil, nil }}
		for _, name := range []string{"a", "b\xff", "c\x1b", "d\n", strings.Repeat("e", 5000)} {
			w.orphans = append(w.orphans, sal.Orphan{Kind: "file", Name: name[:1], Remedy: sal.Command("rm", name)})
		}
		n := watched(t, w)
		quiet(31 * time.Second)
		got := map[string]string{}
		for _, o := range n.lastReport().Orphans {
			got[o.Name] = o.Remedy
		}
		if diff := cmp.Diff(map[string]string{"a": "rm a", "b": "", "c": "", "d": "", "e": ""}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestRecordsOfNetworksStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watchful{look: func(context.Context, writ.ResourceID) ([]sal.Drift, error) { return nil, nil }}
		n := watched(t, w)
		quiet(time.Second)
		w.change(func() { w.mute = true })
		before := n.lastReport().Round
		quiet(time.Minute)
		if got := n.lastReport(); got.Round == before || got.Network == nil || got.Network.Spoofed != 3 {
			t.Errorf("network while its status is unavailable = %+v, want the last one", got.Network)
		}
	})
}

// A repair is in every report until the supervisor acknowledges it.
//
// Promise: Repair and usage: A repair of a node is one event of its resource, despite lost or repeated reports and
// restarts.
// How: Each report contains it until acknowledged; the transaction of the event stores the last number; repeated
// breaks create at most ten events an hour.
// Also: TestRepairIsOneEventOfItsResource, TestRunRestartsEndedContainers, TestResourceListsRepairsOfItsNode.
func TestARepairIsReportedUntilItIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken []sal.Drift
		w := &watchful{}
		w.look = func(context.Context, writ.ResourceID) ([]sal.Drift, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return broken, nil
		}
		n := watched(t, w)
		made := n.job(1, "volume.create", "data", nil)
		n.push(made)
		n.await(made.JobKey)
		quiet(time.Second)
		w.change(func() {
			broken = []sal.Drift{{What: "it was unmounted", Mended: true}, {What: "it was down", Mended: true}}
		})
		quiet(30 * time.Second)
		w.change(func() { broken = nil })
		quiet(time.Minute)
		got := n.lastReport()
		if len(got.Mendings) != 1 || got.Mended != 1 {
			t.Fatalf("repairs after two reports = %+v, total %d", got.Mendings, got.Mended)
		}
		at := time.UnixMilli(got.Mendings[0].Time)
		if age := time.Since(at); age < time.Minute || age > 2*time.Minute {
			t.Errorf("it was mended %v ago", age)
		}
		want := []writ.NodeMending{{
			ResourceID: writ.ResourceID{Project: n.project, Kind: writ.KindVolume, Name: "data"}, UID: made.UID, Count: 1,
			Time: at.UnixMilli(), What: "it was unmounted; it was down",
		}}
		if diff := cmp.Diff(want, got.Mendings); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// A report without the repair.
		n.tell(writ.Control{Acknowledged: &writ.ReportID{Incarnation: got.Incarnation, Round: got.Round - 3}})
		quiet(30 * time.Second)
		if got = n.lastReport(); len(got.Mendings) != 1 {
			t.Errorf("repairs without an acknowledgement = %+v", got.Mendings)
		}
		n.tell(writ.Control{Acknowledged: &writ.ReportID{Incarnation: got.Incarnation, Round: got.Round}})
		quiet(30 * time.Second)
		if got = n.lastReport(); len(got.Mendings) != 0 || got.Mended != 1 {
			t.Errorf("acknowledged repairs are reported again: %+v", got.Mendings)
		}

		// The list of unacknowledged repairs is limited; their count stays exact.
		w.change(func() { broken = []sal.Drift{{What: "it had died", Mended: true}} })
		quiet(20 * 30 * time.Second)
		got = n.lastReport()
		if len(got.Mendings) != 10 || got.Mendings[9].Count != 21 || got.Mended != 21 {
			t.Errorf("after 20 more repairs: reported %d, last number %d of %d", len(got.Mendings), got.Mendings[len(got.Mendings)-1].Count, got.Mended)
		}
	})
}

// The state of a resource is reported when it changes, in every report until the supervisor acknowledges it. It is
// reported again after each operation, because the operation's answer may differ, and to a new supervisor.
//
// Promise: Repair and usage: The shown state and address of a resource are at most half a minute old; leftovers of a
// failed delete stay visible.
// How: A change is reported until acknowledged, to each new supervisor, and after each operation.
// Also: TestStatesBeyondOneReportFollowInOthers, TestALostResourceIsReportedOnce,
// TestResourceStateIsStored, TestLateDeleteOfNodeIsRecorded, TestFindingsOfANodeReachPeople.
func TestResourceStatusIsSentUntilAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watchful{
			look:   func(context.Context, writ.ResourceID) ([]sal.Drift, error) { return nil, nil },
			stands: map[string]any{"state": "running", "address": "fd00::7"},
		}
		n := watched(t, w)
		made := n.job(1, "volume.create", "data", nil)
		n.push(made)
		n.await(made.JobKey)
		running := []writ.ResourceState{{
			ResourceID: writ.ResourceID{Project: n.project, Kind: writ.KindVolume, Name: "data"}, UID: made.UID, Standing: writ.Standing{State: "running", Address: "fd00::7"},
		}}
		want := func(when string, want []writ.ResourceState) {
			t.Helper()
			quiet(30 * time.Second)
			if diff := cmp.Diff(want, n.lastReport().States); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", when, diff)
			}
		}
		acknowledge := func(epoch int64) {
			got := n.lastReport()
			n.tell(writ.Control{Epoch: epoch, Acknowledged: &writ.ReportID{Incarnation: got.Incarnation, Round: got.Round}})
			quiet(time.Second)
		}
		quiet(time.Second)
		want("when it was made", running)
		want("without an acknowledgement", running)
		epoch := n.lastBeat().Epoch
		acknowledge(epoch)
		want("when it was heard", nil)

		stopped := slices.Clone(running)
		stopped[0].State = "stopped"
		w.change(func() { w.stands = map[string]any{"state": "stopped", "address": "fd00::7"} })
		want("when it has stopped", stopped)
		w.change(func() { w.stands = map[string]any{"state": "running", "address": "fd00::7"} })
		acknowledge(epoch) // of another state
		want("when it runs again", running)
		acknowledge(epoch)
		want("when that was heard", nil)

		again := n.job(2, "volume.create", "data", nil)
		n.push(again)
		n.await(again.JobKey)
		want("after an operation", running)
		acknowledge(epoch + 1)
		want("to another supervisor", running)
		acknowledge(epoch + 1)
		want("when that one has heard it", nil)
	})
}

func TestMaintenanceSkipsAResourceWithAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looked atomic.Int64
		w := &watchful{look: func(context.Context, writ.ResourceID) ([]sal.Drift, error) { looked.Add(1); return nil, nil }}
		n := watched(t, w)
		made := n.job(1, "volume.create", "data", nil)
		n.push(made)
		n.await(made.JobKey)
		quiet(31 * time.Second)
		before := looked.Load()
		if before == 0 {
			t.Fatal("nobody looked")
		}
		n.host.setPause(func(ctx context.Context, step string, _ sal.Request) error {
			if step == begun {
				time.Sleep(40 * time.Second)
			}
			return nil
		})
		long := n.job(2, "volume.delete", "data", func(j *writ.Job) { j.Operation, j.Args = "volume.create", map[string]any{"size_gib": int64(1)} })
		n.push(long)
		quiet(35 * time.Second)
		if looks := looked.Load(); looks != before {
			t.Errorf("it was looked at %d times while a job was at it", looks-before)
		}
		n.await(long.JobKey)
		quiet(31 * time.Second)
		if looked.Load() == before {
			t.Error("no inspection after the end of the job")
		}
	})
}

// Promise: Repair and usage: A driver with an endless check delays only its resource.
// How: Each check has five minutes, then the node names it.
func TestHangingInspectionBlocksNoOtherWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		w := &watchful{}
		w.look = func(_ context.Context, r writ.ResourceID) ([]sal.Drift, error) {
			if r.Name == "stuck" {
				<-free
			}
			return []sal.Drift{{What: "seen"}}, nil
		}
		n := watched(t, w)
		for seq, name := range []string{"stuck", "well"} {
			job := n.job(seq+1, "volume.create", name, nil)
			n.push(job)
			n.await(job.JobKey)
		}
		quiet(7 * time.Minute)
		var said []string
		for _, d := range n.lastReport().Drifts {
			said = append(said, d.Name+": "+strings.Join(d.Lasts, "; "))
		}
		want := []string{"stuck: maintenance failed: the driver has not finished its maintenance", "well: seen"}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		waits := n.job(3, "volume.create", "stuck", nil)
		n.push(waits)
		if got := n.await(waits.JobKey); codeOf(got) != writ.CodeResourceBusy || !testenv.Mentions(got.Error.Message, "volume stuck") {
			t.Errorf("a job on it: %+v", got.Error)
		}
		close(free)
		quiet(31 * time.Second)
		if got := n.lastReport().Drifts; len(got) != 2 || !slices.Equal(got[0].Lasts, []string{"seen"}) {
			t.Errorf("when the driver was done: %+v", got)
		}
	})
}

func TestFailingMeasurementBlocksNoOtherWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, asked := make(chan struct{}), atomic.Int64{}
		w := &watchful{look: func(context.Context, writ.ResourceID) ([]sal.Drift, error) { return []sal.Drift{{What: "seen"}}, nil }}
		w.meter = func() {
			if asked.Add(1) == 1 {
				panic("no counter")
			}
			<-free
		}
		n := watched(t, w)
		made := n.job(1, "volume.create", "data", nil)
		n.push(made)
		n.await(made.JobKey)
		quiet(5 * time.Minute)
		round := n.lastReport().Round
		quiet(5 * time.Minute)
		if got := n.lastReport(); got.Round < round+4 || len(got.Drifts) != 1 {
			t.Errorf("after report %d and five minutes: %+v", round, got)
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("a driver that does not answer was asked %d times", n-1)
		}
		close(free)
		quiet(31 * time.Second)
		if asked.Load() == 2 {
			t.Error("it is asked no more")
		}
	})
}

// The use of a resource is reported until the supervisor acknowledges it, even by the next incarnation, and never
// decreases.
//
// Promise: Repair and usage: The use of a resource is counted once, with any lost or repeated report.
// How: Hours only grow and are reported until acknowledged; the greater number counts.
// Also: TestUseIsChargedFromTheFirstMomentToTheLast, TestUseIsChargedToTheHourInWhichItWas, TestSilenceIsNotDeath,
// TestOnARealDiskAndNetwork, TestUsageIsAcknowledgedAfterItIsOnDisk.
func TestUsageIsReportedUntilItIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watchful{
			look:  func(context.Context, writ.ResourceID) ([]sal.Drift, error) { return nil, nil },
			usage: sal.Usage{CPUs: 200, MemoryMiB: 512, DiskGiB: 10, Received: 100},
		}
		n, began := watched(t, w), time.Now()
		made := n.job(1, "volume.create", "data", nil)
		n.push(made)
		n.await(made.JobKey)
		// Scans at 0:30, 1:00, … 5:00; the last report contains the usage.
		quiet(time.Until(began.Add(5*time.Minute + time.Second)))
		got := n.lastReport()
		want := []writ.Usage{{
			ResourceID: writ.ResourceID{Project: n.project, Kind: writ.KindVolume, Name: "data"}, UID: made.UID, Hour: time.Now().UTC().Truncate(time.Hour),
			Used: writ.Used{CPUSeconds: 600, MemoryMiBSeconds: 300 * 512, DiskGiBSeconds: 3000, Received: 100},
		}}
		if diff := cmp.Diff(want, got.Usage); diff != "" {
			t.Fatalf("usage (-want +got):\n%s", diff)
		}

		n.stop()
		time.Sleep(time.Until(began.Add(7 * time.Minute)))
		w.change(func() { w.usage.Received = 30 }) // its counter restarted
		n = n.fixture.start(n.dir, n.host, w.put)
		quiet(time.Second)
		got = n.lastReport()
		want[0].Used = writ.Used{CPUSeconds: 840, MemoryMiBSeconds: 420 * 512, DiskGiBSeconds: 4200, Received: 130}
		if diff := cmp.Diff(want, got.Usage); diff != "" {
			t.Fatalf("after a restart (-want +got):\n%s", diff)
		}
		// Another incarnation: no effect.
		n.tell(writ.Control{Acknowledged: &writ.ReportID{Incarnation: got.Incarnation - 1, Round: got.Round}})
		n.tell(writ.Control{Acknowledged: &writ.ReportID{Incarnation: got.Incarnation, Round: got.Round}})
		w.change(func() { w.usage = sal.Usage{Received: 30} })
		n.host.remove(made)
		quiet(6 * time.Minute)
		if got := n.lastReport(); got.Usage != nil {
			t.Errorf("acknowledged usage is reported again: %+v", got.Usage)
		}
	})
}

// Scans are half a minute apart. A resource that exists for a shorter time is charged for all of it.
//
// Promise: Commands and hosts: A resource is charged from its creation to its deletion, and each moment once.
// How: A reading at its creation, at each check and before its deletion; sums equal the lines.
// Also: TestUsageIsReportedUntilItIsAcknowledged, TestUsageIsAddedUpByProjectAndTenant.
func TestUseIsChargedFromTheFirstMomentToTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watchful{
			look:  func(context.Context, writ.ResourceID) ([]sal.Drift, error) { return nil, nil },
			usage: sal.Usage{CPUs: 100, Sent: 5},
		}
		n, began := watched(t, w), time.Now()
		uids := map[string]writ.UID{"long": writ.UID(writ.NewUUID()), "short": writ.UID(writ.NewUUID())}
		act := func(seq int, operation, name string) {
			t.Helper()
			of := func(j *writ.Job) { j.Name, j.UID = name, uids[name] }
			job := n.job(seq, operation, name, of)
			n.push(job)
			if r := n.await(job.JobKey); r.Error != nil {
				t.Fatal(r.Error)
			}
		}
		at := func(since time.Duration) {
			time.Sleep(time.Until(began.Add(since)))
			synctest.Wait()
		}
		act(1, "volume.create", "long")
		at(40 * time.Second) // the last scan was at 0:30, the next is at 1:00
		act(2, "volume.create", "short")
		at(50 * time.Second)
		act(3, "volume.delete", "short")
		act(4, "volume.delete", "long")
		at(5*time.Minute + time.Second)
		used := map[string]writ.Used{}
		for _, u := range n.lastReport().Usage {
			used[u.Name] = u.Used
		}
		want := map[string]writ.Used{"long": {CPUSeconds: 50, Sent: 5}, "short": {CPUSeconds: 10, Sent: 5}}
		if diff := cmp.Diff(want, used); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
