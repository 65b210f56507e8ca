package runner_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/test/testenv"
	"writ/runner"
	"writ/runner/member"
	"writ/sal"
	"writ/supervisor/nodes"
)

// Promise: Failures: A job acts once for any number of deliveries.
// How: The runner keeps it until its result is on disk and answers repeats from its journal; unrepeatable work is
// recorded on disk before the node acts.
// Also: TestARepeatableJobIsRecordedWhenItIsDone, TestEvictedRunsAreReadFromTheJournal,
// TestRunInWriteIsNotEvicted.
func TestRepeatedlyDeliveredJobActsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		working := make(chan struct{})
		n.host.setPause(func(_ context.Context, step string, _ sal.Request) error {
			if step == begun {
				<-working
			}
			return nil
		})
		job := n.job(1, "volume.create", "data", nil)
		for job.Delivery = 1; job.Delivery <= 3; job.Delivery++ { // while it runs
			n.push(job)
			quiet(time.Second)
		}
		if !n.active(job.JobKey) || len(n.got(job.JobKey)) != 0 {
			t.Fatal("the job does not run")
		}
		close(working)
		first := n.await(job.JobKey)
		if first.Change != writ.ChangeCreated || first.Error != nil || first.Driver != "test-volume" || !first.Simulated {
			t.Errorf("result = %+v", first)
		}
		quiet(time.Second)
		for _, job.Delivery = range []int{1, 4, 5} { // after its end; the first is a repetition by the queue itself
			n.push(job)
			quiet(time.Second)
		}
		if n.active(job.JobKey) {
			t.Error("the job is still called active")
		}
		answered := map[writ.Digest]bool{}
		for _, r := range n.got(job.JobKey) {
			answered[r.Job] = true
			r.Job = first.Job
			if diff := cmp.Diff(first, r); diff != "" {
				t.Errorf("a repeated delivery was answered differently:\n%s", diff)
			}
		}
		if len(answered) != 3 {
			t.Errorf("answered %d deliveries, want 3", len(answered))
		}
		if got := n.host.count(job.JobKey.String()); got != 1 {
			t.Errorf("%d effects, want 1", got)
		}
		if acted, repeated := n.counted("jobs"), n.counted("repeated"); acted != 1 || repeated != 5 {
			t.Errorf("%g jobs and %g repetitions, want 1 and 5", acted, repeated)
		}
	})
}

func TestEachAttemptIsItsOwnPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		fails := writ.Errorf(writ.CodeDriverFailed, "the disk is \xff asleep")
		n.host.setPause(func(_ context.Context, step string, r sal.Request) error {
			if step == begun && strings.HasSuffix(r.Key, "-1") {
				return fails
			}
			return nil
		})
		job := n.job(1, "volume.create", "data", nil)
		n.push(job)
		if got := n.await(job.JobKey); codeOf(got) != writ.CodeDriverFailed || got.Error.Message != "the disk is \uFFFD asleep" {
			t.Errorf("first attempt: %+v, want the driver's error", got.Error)
		}
		job.Attempt = 2
		n.push(job)
		if got := n.await(job.JobKey); got.Error != nil || got.Change != writ.ChangeCreated {
			t.Errorf("second attempt: %+v, want it created", got)
		}
	})
}

// Promise: Submissions: An unauthentic text has no effect on a node.
// How: The node checks signature, addressee, epoch and times before any write.
func TestUnauthenticMessagesHaveNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		stranger := newKey()
		at := func(d time.Duration) int64 { return time.Now().Add(d).UnixMilli() }
		signed := func(j *writ.Job) []byte {
			j.Node = n.member.Node()
			all, _, err := envelope.SignEach(envelope.Job, n.supervisor, j)
			must(t, err)
			return all[0]
		}
		changed := func(change func(j *writ.Job)) func(j *writ.Job) {
			return func(j *writ.Job) { change(j); n.push(j) }
		}
		attacks := map[string]func(j *writ.Job){
			"signed by a stranger": func(j *writ.Job) {
				j.Node = n.member.Node()
				n.pushSigned(stranger, envelope.Job, j)
			},
			"signed as something else": func(j *writ.Job) {
				j.Node = n.member.Node()
				n.pushSigned(n.supervisor, envelope.Control, j)
			},
			"a byte changed": func(j *writ.Job) {
				body := signed(j)
				body[len(body)-10] ^= 1
				n.pushBytes(j.TaskID(), body)
			},
			"cut off":                func(j *writ.Job) { body := signed(j); n.pushBytes(j.TaskID(), body[:len(body)/2]) },
			"nothing":                func(j *writ.Job) { n.pushBytes(j.TaskID(), nil) },
			"for another node":       changed(func(j *writ.Job) { j.Node = writ.NodeID(writ.NewUUID()) }),
			"another datacenter":     changed(func(j *writ.Job) { j.Datacenter = writ.DatacenterID(writ.NewUUID()) }),
			"another cluster":        changed(func(j *writ.Job) { j.Cluster = writ.ClusterID(strings.Repeat("a", 64)) }),
			"past its start-by":      changed(func(j *writ.Job) { j.StartBy = at(-time.Second) }),
			"past its end-by":        changed(func(j *writ.Job) { j.EndBy = at(-time.Second) }),
			"without times":          changed(func(j *writ.Job) { j.StartBy, j.EndBy = 0, 0 }),
			"of an epoch gone by":    changed(func(j *writ.Job) { j.Epoch = 0 }),
			"of an epoch of no time": changed(func(j *writ.Job) { j.Epoch = 9e18 }),
			"without a key":          changed(func(j *writ.Job) { j.Attempt = 0 }),
		}
		seq := 0
		for name, attack := range attacks {
			seq++
			before := n.counted("dropped")
			j := n.job(seq, "volume.create", fmt.Sprintf("v%d", seq), nil)
			attack(j)
			quiet(time.Second)
			if dropped, acted := n.counted("dropped"), n.counted("jobs"); dropped != before+1 || acted != 0 {
				t.Errorf("%s: %g dropped after %g, and %g jobs", name, dropped, before, acted)
			}
			if got := n.got(j.JobKey); len(got) != 0 {
				t.Errorf("%s: answered with %+v", name, got)
			}
		}
		if n.host.total() != 0 {
			t.Error("something happened on the host")
		}
	})
}

// An attacker with access to Redis can add any message, including repetitions of the supervisor's.
func TestDroppedMessagesLogFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(testenv.Log)
		n := newFixture(t).fresh(func(r *runner.Runner) { r.Log = log.Logger() })
		old := n.job(1, "volume.create", "data", func(j *writ.Job) { j.StartBy = time.Now().Add(-time.Second).UnixMilli() })
		for i := range 500 {
			n.push(old)
			n.pushBytes(strings.Repeat("x", 10_000)+strconv.Itoa(i), []byte("nonsense"))
			n.tell(writ.Control{Node: "0192f6c2-0000-7000-8000-0000000000bb"})
		}
		quiet(time.Second)
		if got := n.counted("dropped"); got < 1000 {
			t.Fatalf("%g were dropped", got)
		}
		if lines := log.Lines("dropped a"); lines != 3 || log.Lines("dropped a delivery") != 2 || log.Lines("code=EXPIRED") != 1 {
			t.Errorf("they make %d lines:\n%.3000s", lines, log)
		}
		for line := range strings.Lines(log.String()) {
			if len(line) > 2000 {
				t.Errorf("a line has %d bytes", len(line))
			}
		}
	})
}

// Promise: Nodes and Redis: Nodes refuse jobs of an earlier supervisor.
// How: Jobs carry an epoch; nodes store the highest epoch on disk.
func TestALowerEpochIsRefusedAlsoAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		refused := func(n *node, seq int, epoch int64) {
			t.Helper()
			before := n.counted("dropped")
			n.push(n.job(seq, "volume.create", "data", func(j *writ.Job) { j.Epoch = epoch }))
			quiet(time.Second)
			if got := n.counted("dropped"); got != before+1 {
				t.Errorf("epoch %d: %g dropped after %g, want one more", epoch, got, before)
			}
		}
		five := n.job(1, "volume.create", "data", func(j *writ.Job) { j.Epoch = 5 })
		n.push(five)
		n.await(five.JobKey)
		refused(n, 2, 4)

		n = n.again()
		refused(n, 3, 4)
		n.tell(writ.Control{Epoch: 7}) // a new supervisor announces itself before it sends jobs
		refused(n, 4, 6)
		quiet(time.Second)
		if got := n.lastBeat().Epoch; got != 7 {
			t.Errorf("epoch in the beat = %d, want 7", got)
		}

		n = n.again()
		refused(n, 5, 6)
		before := n.counted("dropped")
		n.tell(writ.Control{Epoch: 6, Cancels: map[writ.RunID]int64{five.Run: time.Now().Add(time.Hour).UnixMilli()}})
		seven := n.job(6, "volume.create", "data", func(j *writ.Job) { j.Epoch = 7 })
		n.push(seven)
		if got := n.await(seven.JobKey); got.Error != nil || n.counted("dropped") != before+1 {
			t.Errorf("a supervisor whose time is over cancelled a run: %+v", got.Error)
		}
	})
}

func TestArgumentsAreCheckedAgainOnTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		for seq, tt := range []struct {
			operation, name string
			change          func(j *writ.Job)
			want            writ.Code
		}{
			{"volume.create", "data", func(j *writ.Job) { j.Args["sise_gib"] = int64(1) }, writ.CodeArgumentsInvalid},
			{"volume.create", "data", func(j *writ.Job) { j.Args["size_gib"] = "1" }, writ.CodeArgumentsInvalid},
			{"volume.create", "data", func(j *writ.Job) { j.Args = nil }, writ.CodeArgumentsInvalid},
			{"volume.create", "", nil, writ.CodeArgumentsInvalid},
			{"volume.create", "../etc", nil, writ.CodeArgumentsInvalid},
			{"volume.create", "data", func(j *writ.Job) { j.Project = "../x" }, writ.CodeArgumentsInvalid},
			{"volume.create", "data", func(j *writ.Job) { j.UID = "" }, writ.CodeArgumentsInvalid},
			{"node.ping", "data", nil, writ.CodeArgumentsInvalid},
			{"machine.stop", "web", nil, writ.CodeDriverMissing},
			{"volume.melt", "data", nil, writ.CodeDriverMissing},
		} {
			job := n.job(seq+1, tt.operation, tt.name, tt.change)
			n.push(job)
			if got := n.await(job.JobKey); codeOf(got) != tt.want {
				t.Errorf("%s %q: %+v, want %s", tt.operation, tt.name, got.Error, tt.want)
			}
		}
		if n.host.total() != 0 {
			t.Error("something happened on the host")
		}
	})
}

func TestAResultIsSentAgainUntilItIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		job := n.job(1, "node.ping", "", nil)
		n.push(job)
		n.await(job.JobKey)
		quiet(6*time.Second + 500*time.Millisecond)
		if got := len(n.got(job.JobKey)); got != 3 {
			t.Errorf("sent %d times in 6 seconds, want 3", got)
		}
		quiet(time.Hour)
		got := len(n.got(job.JobKey))
		if got > 70 {
			t.Errorf("sent %d times within an hour without a supervisor, want at most 70", got)
		}
		n.tell(writ.Control{Epoch: 2}) // a supervisor is available again
		quiet(2 * time.Second)
		if again := len(n.got(job.JobKey)) - got; again != 1 {
			t.Errorf("sent %d times within 2 seconds after the supervisor was heard, want 1", again)
		}

		n = n.again() // sent immediately after the restart, without a delivery
		quiet(time.Second)
		if got := len(n.got(job.JobKey)); got != 1 {
			t.Errorf("sent %d times in the first second after a restart, want 1", got)
		}
		n.tell(writ.Control{Epoch: 2, Acks: []writ.JobKey{job.JobKey}})
		quiet(time.Minute)
		if got := len(n.got(job.JobKey)); got != 1 {
			t.Errorf("sent %d times although it was acknowledged, want 1", got)
		}

		n = n.again()
		quiet(time.Minute)
		if got := len(n.got(job.JobKey)); got != 0 {
			t.Errorf("sent %d times although an earlier incarnation received the acknowledgement", got)
		}
	})
}

func TestResultsWaitForQueueAndShareSignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(func(r *runner.Runner) { r.Slots = 200 })
		release := make(chan struct{})
		n.host.setPause(func(context.Context, string, sal.Request) error { <-release; return nil })
		for seq := 1; seq <= 130; seq++ {
			n.push(n.job(seq, "node.ping", "", nil))
		}
		quiet(time.Second)
		n.queue.Cut(true)
		close(release)
		quiet(10 * time.Second)
		n.queue.Cut(false)
		quiet(1500 * time.Millisecond) // less than the resend delay
		if len(n.results) != 130 || n.messages != 3 {
			t.Errorf("received %d results in %d messages, want 130 in 3", len(n.results), n.messages)
		}
	})
}

func TestJobsOnOneResourceRunInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		n.host.setPause(func(ctx context.Context, step string, r sal.Request) error {
			if step == begun {
				time.Sleep(2 * time.Second)
			}
			return nil
		})
		var want []string
		for seq := 1; seq <= 3; seq++ {
			job := n.job(seq, "container.exec", "web", nil)
			want = append(want, job.JobKey.String())
			n.push(job)
			synctest.Wait()
		}
		other := n.job(4, "container.exec", "db", nil)
		n.push(other)
		n.await(other.JobKey)
		if got := n.host.total(); got != 2 {
			t.Errorf("%d effects after the job on the other resource, want 2", got)
		}
		first := n.job(1, "container.exec", "web", func(j *writ.Job) { j.Delivery = 2 })
		before := len(n.got(first.JobKey))
		n.push(first)
		synctest.Wait()
		if got := len(n.got(first.JobKey)); got != before+1 {
			t.Error("a repeated delivery of a job that has ended waits for the resource")
		}
		quiet(10 * time.Second)
		order := slices.DeleteFunc(slices.Clone(n.host.order), func(key string) bool { return key == other.JobKey.String() })
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("order of the jobs on one resource: %s", diff)
		}
		if n.host.most != 1 {
			t.Errorf("%d jobs worked on one resource at once", n.host.most)
		}
	})
}

func TestOverdueDriverBlocksOnlyItsResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(func(r *runner.Runner) { r.Slots = 2 })
		release := make(chan struct{})
		stuck := n.job(1, "volume.create", "data", func(j *writ.Job) { j.EndBy = time.Now().Add(10 * time.Second).UnixMilli() })
		n.host.setPause(func(_ context.Context, _ string, r sal.Request) error {
			if r.Key == stuck.JobKey.String() {
				<-release
			}
			return nil
		})
		n.push(stuck)
		quiet(15 * time.Second)
		if len(n.got(stuck.JobKey)) != 0 {
			t.Error("answered before its driver is done")
		}

		behind := n.job(2, "volume.create", "data", func(j *writ.Job) { j.StartBy = time.Now().Add(5 * time.Second).UnixMilli() })
		elsewhere := []*writ.Job{n.job(3, "volume.create", "a", nil), n.job(4, "volume.create", "b", nil)}
		n.push(behind)
		for _, j := range elsewhere { // one of two slots waits for the resource; the stuck job uses no slot
			n.push(j)
			if got := n.await(j.JobKey); got.Error != nil {
				t.Errorf("a job on another resource: %+v", got.Error)
			}
		}
		got := n.await(behind.JobKey)
		if codeOf(got) != writ.CodeResourceBusy || !got.Error.Retryable() || !strings.Contains(got.Error.Message, stuck.JobKey.String()) {
			t.Errorf("the job behind it: %+v, want %s that names %s", got.Error, writ.CodeResourceBusy, stuck.JobKey)
		}
		quiet(time.Second)
		if !n.active(stuck.JobKey) {
			t.Error("the beat does not name the job that still works")
		}
		if told := n.lastBeat().Stuck; len(told) != 1 || told[0].JobKey != stuck.JobKey || told[0].Operation != stuck.Operation || told[0].Name != "data" ||
			!told[0].Since.After(time.UnixMilli(stuck.EndBy)) {
			t.Errorf("stuck = %+v", told)
		}

		close(release)
		if got := n.await(stuck.JobKey); got.Error != nil {
			t.Errorf("late result of the driver = %+v, want success", got)
		}
		quiet(2 * time.Second)
		if n.active(stuck.JobKey) || len(n.lastBeat().Stuck) != 0 {
			t.Error("the beat names a job that is done")
		}
		behind.Attempt, behind.StartBy = 2, time.Now().Add(time.Second).UnixMilli()
		n.push(behind)
		if got := n.await(behind.JobKey); got.Error != nil {
			t.Errorf("the resource is not free: %+v", got.Error)
		}
	})
}

func TestNodeReportsStuckDrivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(func(r *runner.Runner) { r.Slots = 1 })
		release := make(chan struct{})
		n.host.setPause(func(context.Context, string, sal.Request) error { <-release; return nil })
		stuck := n.job(1, "volume.create", "data", nil)
		n.push(stuck)
		quiet(time.Until(time.UnixMilli(stuck.EndBy)) + 5*time.Second)
		next := n.job(2, "volume.create", "other", nil)
		n.push(next)
		if got := n.await(next.JobKey); codeOf(got) != writ.CodeResourceBusy {
			t.Errorf("result = %+v, want %s", got, writ.CodeResourceBusy)
		}
		quiet(time.Second)
		if fault := n.lastBeat().Fault; !strings.Contains(fault, stuck.JobKey.String()) {
			t.Errorf("fault = %q, want the stuck job", fault)
		}
		close(release)
		quiet(time.Second)
		if fault := n.lastBeat().Fault; fault != "" {
			t.Errorf("fault = %q after all is well", fault)
		}
	})
}

func TestADriversMistakesEndWithItsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		for seq, tt := range []struct {
			mistake func() (sal.Outcome, error)
			want    writ.Code
		}{
			{func() (sal.Outcome, error) { panic("nil map") }, writ.CodeInternal},
			{func() (sal.Outcome, error) { return sal.Outcome{}, errors.New("secret of the host") }, writ.CodeInternal},
			{func() (sal.Outcome, error) { return sal.Outcome{Values: map[string]any{"n": 1}}, nil }, writ.CodeInternal},
			{func() (sal.Outcome, error) { return sal.Outcome{Values: map[string]any{"s": "\xff"}}, nil }, writ.CodeInternal},
			{func() (sal.Outcome, error) {
				return sal.Outcome{Values: map[string]any{"log": strings.Repeat("x", 70<<10)}}, nil
			}, writ.CodeScriptLimit},
		} {
			n.stop()
			n = n.fixture.start(n.dir, n.host, func(r *runner.Runner) { r.Drivers = []sal.Driver{mistaken{tt.mistake}} })
			job := n.job(seq+1, "node.ping", "", nil)
			n.push(job)
			got := n.await(job.JobKey)
			if codeOf(got) != tt.want || strings.Contains(got.Error.Message, "secret") {
				t.Errorf("mistake %d: %+v, want %s", seq, got.Error, tt.want)
			}
		}
	})
}

type mistaken struct {
	mistake func() (sal.Outcome, error)
}

func (mistaken) Describe() writ.NodeDriver { return writ.NodeDriver{Module: "node", Name: "mistaken"} }

func (m mistaken) Do(context.Context, sal.Request) (sal.Outcome, error) { return m.mistake() }

func (mistaken) Observe(context.Context, writ.ResourceID) (sal.Observation, error) {
	return sal.Observation{}, nil
}

func (mistaken) List(context.Context) ([]writ.ResourceID, error) { return nil, nil }

func TestBeatsTellTheStateOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		began := time.Now()
		quiet(8 * time.Second)
		got := n.lastBeat()
		_, phase := nodes.BeatPhase(n.member.Node())
		due := began.Add(4500 * time.Millisecond)
		second := due.Truncate(time.Second).Add(phase)
		if !second.After(due) {
			second = second.Add(time.Second)
		}
		want := writ.Beat{
			Node: n.member.Node(), Boot: got.Boot, Incarnation: got.Incarnation, Sequence: 2, Clock: second.UnixMilli(), Every: 5, Epoch: 1,
			Health: writ.Health{Slots: 4, Capacity: writ.Capacity{CPUs: 4, MemoryMiB: 1024, DiskGiB: got.Capacity.DiskGiB}, Version: "test",
				Drivers: []writ.NodeDriver{
					{Module: "container", Name: "test-container", Simulated: true},
					{Module: "node", Name: "test-node"},
					{Module: "volume", Name: "test-volume", Simulated: true},
				}},
		}
		if diff := cmp.Diff(want, got); diff != "" || got.Boot == "" || got.Incarnation == 0 {
			t.Error(diff)
		}
		n = n.again()
		quiet(time.Second)
		if next := n.lastBeat(); next.Incarnation <= got.Incarnation || next.Sequence >= got.Sequence {
			t.Errorf("beat %d of incarnation %d follows beat %d of incarnation %d",
				next.Sequence, next.Incarnation, got.Sequence, got.Incarnation)
		}
	})
}

// A node without jobs sends few beats, and a node with jobs or with a change one each second.
func TestBeatsFollowTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		release := make(chan struct{})
		n.host.setPause(func(_ context.Context, step string, r sal.Request) error {
			if step == begun && r.Resource.Name == "slow" {
				<-release
			}
			return nil
		})
		sent := func(during time.Duration) int64 {
			before := n.lastBeat().Sequence
			quiet(during)
			return n.lastBeat().Sequence - before
		}
		want := func(what string, got, least, most int64) {
			t.Helper()
			if got < least || got > most {
				t.Errorf("%s: %d beats, want %d to %d", what, got, least, most)
			}
		}
		quiet(100 * time.Millisecond)
		want("without jobs, in 60 s", sent(time.Minute), 11, 12)
		n.push(n.job(1, "volume.create", "slow", nil))
		want("with a job, in 60 s", sent(time.Minute), 59, 60)
		if b := n.lastBeat(); b.Every != 1 || len(b.Active) != 1 {
			t.Errorf("with a job: %+v", b)
		}
		close(release)
		quiet(1100 * time.Millisecond)
		if b := n.lastBeat(); b.Every != 5 || len(b.Active) != 0 {
			t.Errorf("after the job: %+v", b)
		}
		n.tell(writ.Control{Epoch: 2})
		want("at a later epoch, in 1.1 s", sent(1100*time.Millisecond), 1, 1)
		n.amend(func(r *identity.Roster) {
			if err := r.Datacenters[0].SetSilence(identity.Silence{Silent: 6 * time.Second, Lost: time.Minute}); err != nil {
				t.Error(err)
			}
		})
		n.tell(writ.Control{Epoch: 2, Roster: 2})
		quiet(5 * time.Second)
		want("silent after 6 s, in 60 s", sent(time.Minute), 29, 30)
		if b := n.lastBeat(); b.Every != 2 {
			t.Errorf("silent after 6 s: %+v", b)
		}
	})
}

func TestMissingToolsAreReportedOncePerModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(func(r *runner.Runner) {
			r.Lacking = []writ.NodeDriver{{Module: "volume", Name: "test-volume", Lacks: "a disk"}, {Module: "machine", Name: "none", Lacks: "KVM"}}
		})
		quiet(3*time.Second + 500*time.Millisecond)
		want := []writ.NodeDriver{
			{Module: "container", Name: "test-container", Simulated: true},
			{Module: "machine", Name: "none", Lacks: "KVM"},
			{Module: "node", Name: "test-node"},
			{Module: "volume", Name: "test-volume", Simulated: true, Lacks: "a disk"},
		}
		if diff := cmp.Diff(want, n.lastBeat().Drivers); diff != "" {
			t.Error(diff)
		}
	})
}

// serving is a driver whose description contains the output of programs.
type serving struct{ sal.Driver }

func (serving) Describe() writ.NodeDriver {
	return writ.NodeDriver{
		Module: "container", Name: "c", Detail: "v\xff",
		Engines: []writ.Engine{{Name: "redis-server", Version: "7\xff", Refused: "it does not work: \xff" + strings.Repeat("x", 9000)}},
	}
}

func TestOutputOfAProgramDelaysNoBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(func(r *runner.Runner) {
			r.Drivers = slices.DeleteFunc(r.Drivers, func(d sal.Driver) bool { return d.Describe().Module == "container" })
			r.Drivers = append(r.Drivers, serving{})
			r.Lacking = []writ.NodeDriver{{Module: "machine", Name: "none", Lacks: "\xff"}}
		})
		quiet(3*time.Second + 500*time.Millisecond)
		told := n.lastBeat().Drivers
		if len(told) < 2 || told[0].Detail != "v\uFFFD" || told[0].Engines[0].Version != "7\uFFFD" || len(told[0].Engines[0].Refused) > 5000 || told[1].Lacks != "\uFFFD" {
			t.Errorf("drivers in the beat = %+v", told)
		}
	})
}

func TestNewRosterReplacesSupervisorKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		old, next := n.supervisor, newKey()
		n.amend(func(r *identity.Roster) { r.Datacenters[0].SupervisorKey = next.Public().(ed25519.PublicKey) })
		n.tell(writ.Control{Roster: 2})
		quiet(2 * time.Second)
		if got := n.member.Roster().Version; got != 2 {
			t.Fatalf("the node has roster %d, want 2", got)
		}
		obeys := func(n *node, seq int, key ed25519.PrivateKey, want bool) {
			t.Helper()
			n.fixture.supervisor = key
			job := n.job(seq, "node.ping", "", nil)
			n.push(job)
			quiet(time.Second)
			if got := len(n.got(job.JobKey)) > 0; got != want {
				t.Errorf("job %d was answered: %v, want %v", seq, got, want)
			}
		}
		obeys(n, 1, old, false)
		obeys(n, 2, next, true)
		n = n.again()
		obeys(n, 3, old, false)
		obeys(n, 4, next, true)
	})
}

func TestNodeDetectsMissedRosterByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		quiet(5 * time.Second)
		next := newKey()
		n.amend(func(r *identity.Roster) { r.Datacenters[0].SupervisorKey = next.Public().(ed25519.PublicKey) })
		n.fixture.supervisor = next
		job := n.job(1, "node.ping", "", nil)
		n.push(job)
		quiet(2 * time.Second)
		job.Delivery = 2
		n.push(job)
		n.await(job.JobKey)
	})
}

func TestAnExpiredRosterIsNotObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.amend(func(r *identity.Roster) { r.Expires = r.Created.Add(time.Minute) })
		n := s.fresh(nil)
		quiet(time.Minute + 2*time.Second)
		job := n.job(1, "node.ping", "", nil)
		n.push(job)
		quiet(2 * time.Second)
		if len(n.got(job.JobKey)) != 0 {
			t.Error("the node acted under an expired roster")
		}
		if fault := n.lastBeat().Fault; !strings.Contains(fault, "expired") {
			t.Errorf("fault = %q", fault)
		}
		n.amend(func(*identity.Roster) {})
		quiet(11 * time.Minute) // without an announcement; the node asks periodically
		job = n.job(2, "node.ping", "", nil)
		n.push(job)
		n.await(job.JobKey)
	})
}

func TestApprovedNodeServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := newFixture(t), t.TempDir()
		s.setAdmission(writ.AdmissionPending)
		_, err := member.Join(t.Context(), member.Joining{Dir: dir, API: s, Cluster: s.roster.Cluster, Name: "n1"})
		must(t, err)
		n := s.start(dir, newHost(), nil)
		job := n.job(1, "node.ping", "", nil)
		n.push(job)
		quiet(10 * time.Second)
		if len(n.got(job.JobKey)) != 0 || len(n.beats) != 0 {
			t.Error("a node that is not approved does something")
		}
		s.setAdmission(writ.AdmissionApproved)
		n.await(job.JobKey)
		if n = n.again(); n.member.Admission() != writ.AdmissionApproved {
			t.Error("the approval was forgotten")
		}
	})
}

func TestARejectedNodeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := newFixture(t), t.TempDir()
		s.setAdmission(writ.AdmissionPending)
		_, err := member.Join(t.Context(), member.Joining{Dir: dir, API: s, Cluster: s.roster.Cluster, Name: "n1"})
		must(t, err)
		n := s.start(dir, newHost(), nil)
		quiet(time.Minute)
		s.setAdmission(writ.AdmissionRejected)
		if err := <-n.ended; writ.CodeOf(err) != writ.CodeNodeRejected {
			t.Errorf("Run = %v, want %s", err, writ.CodeNodeRejected)
		}
		n.ended <- nil
	})
}
