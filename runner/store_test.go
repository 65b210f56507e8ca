package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/sal"
)

// fill prevents the node's journal from growing, as a full disk does, until room is called.
func (n *node) fill() (room func()) {
	n.Helper()
	wal, err := os.Stat(filepath.Join(n.dir, "runner.db-wal"))
	must(n.TB, err)
	var before unix.Rlimit
	must(n.TB, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	must(n.TB, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(wal.Size()), Max: before.Max}))
	filled := true
	room = func() {
		if filled {
			filled = false
			must(n.TB, unix.Setrlimit(unix.RLIMIT_FSIZE, &before))
		}
	}
	n.Cleanup(room)
	return room
}

func TestNodeWithoutStoreRefusesAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		release := make(chan struct{})
		runs := n.job(1, "container.exec", "web", nil)
		n.host.setPause(func(_ context.Context, step string, r sal.Request) error {
			if step == acted && r.Key == runs.JobKey.String() {
				<-release
			}
			return nil
		})
		n.push(runs)
		quiet(time.Second)

		room := n.fill()
		comes := n.job(2, "volume.create", "data", nil)
		n.push(comes)
		got := n.await(comes.JobKey)
		if codeOf(got) != writ.CodeStoreUnavailable || !got.Error.Retryable() || n.host.count(comes.JobKey.String()) != 1 {
			t.Errorf("result = %+v, want a retryable %s with the fact that it was carried out", got.Error, writ.CodeStoreUnavailable)
		}
		known := n.job(3, "volume.create", "other", nil) // the failure is known, so the node does not start the job
		n.push(known)
		if got := n.await(known.JobKey); codeOf(got) != writ.CodeNodeStore || n.host.count(known.JobKey.String()) != 0 {
			t.Errorf("result = %+v after %d effects, want %s after none", got.Error, n.host.count(known.JobKey.String()), writ.CodeNodeStore)
		}
		close(release) // the result must be sent, but only after it is recorded
		quiet(5 * time.Second)
		if len(n.got(runs.JobKey)) != 0 {
			t.Error("a result was sent that is not recorded")
		}
		if !n.active(runs.JobKey) {
			t.Error("a job with an unrecorded result is no longer active")
		}
		if fault := n.lastBeat().Fault; !strings.Contains(fault, "journal") {
			t.Errorf("fault = %q", fault)
		}

		room()
		if got := n.await(runs.JobKey); got.Error != nil {
			t.Errorf("the job that ran meanwhile: %+v", got.Error)
		}
		quiet(2 * time.Second)
		if fault := n.lastBeat().Fault; fault != "" {
			t.Errorf("fault = %q with room again", fault)
		}
		comes.Attempt = 2
		n.push(comes)
		if got := n.await(comes.JobKey); got.Error != nil {
			t.Errorf("the next attempt: %+v", got.Error)
		}
		if n.host.total() != 2 {
			t.Errorf("%d effects, want 2", n.host.total())
		}
	})
}

func TestFullDiskHidesNoInterruptedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newFixture(t), newHost()
		job := s.job(1, "container.exec", "web", nil)
		dir := killedAt(t, s, h, afterActed, job)
		n := s.start(dir, h, nil)
		quiet(time.Second)
		room := n.fill()
		job.Node, job.Delivery = n.member.Node(), 2
		n.push(job)
		quiet(5 * time.Second)
		if got := n.got(job.JobKey); len(got) != 0 {
			t.Errorf("answered with %+v", got[0].Error)
		}
		if fault := n.lastBeat().Fault; !strings.Contains(fault, "journal") {
			t.Errorf("fault = %q", fault)
		}
		room()
		quiet(2 * time.Second) // no job writes now, so only the node itself can detect the free space
		if fault := n.lastBeat().Fault; fault != "" {
			t.Errorf("fault = %q with room again", fault)
		}
		job.Delivery = 3
		n.push(job)
		if got := n.await(job.JobKey); codeOf(got) != writ.CodeOutcomeUnknown || h.total() != 1 {
			t.Errorf("result = %+v after %d effects, want %s after 1", got.Error, h.total(), writ.CodeOutcomeUnknown)
		}
	})
}
