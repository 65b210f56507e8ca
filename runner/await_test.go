package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/sal"
)

// follow returns a job that waits for more of the log of an existing container.
func follow(n *node, seq int, change func(j *writ.Job)) *writ.Job {
	return n.job(seq, "container.logs", "web", func(j *writ.Job) {
		j.Args = map[string]any{"after": "0123456789ab-7", "wait_seconds": int64(40)}
		j.EndBy = j.StartBy + time.Minute.Milliseconds()
		if change != nil {
			change(j)
		}
	})
}

// following returns a node with a container, and a function that counts the driver's observations.
func following(t *testing.T) (n *node, looks func() int) {
	n = newFixture(t).fresh(nil)
	n.host.mu.Lock()
	defer n.host.mu.Unlock()
	web := n.job(0, "container.logs", "web", nil)
	n.host.things[writ.ResourceID{Project: n.project, Kind: writ.KindContainer, Name: "web"}] = web.UID
	count := 0
	n.host.pause = func(_ context.Context, step string, r sal.Request) error {
		if step == begun && r.Operation.Name() == "container.logs" {
			count++
		}
		return nil
	}
	return n, func() int { n.host.mu.Lock(); defer n.host.mu.Unlock(); return count }
}

// answeredIn fails the test unless a job is answered within a time.
func (n *node) answeredIn(j *writ.Job, most time.Duration, want writ.Code) {
	n.Helper()
	began := time.Now()
	got := n.await(j.JobKey)
	if took := time.Since(began); codeOf(got) != want || took > most {
		n.Errorf("job %d is answered after %s: %+v, want %q within %s", j.Seq, took, got.Error, want, most)
	}
}

// Promise: Networks and containers: A log reader delays no other work, ends with its resource or run, and continues
// after a restart of the node.
// How: The node waits before it takes the lock of the resource.
// Also: TestLogJobEndsWithDeadlineOrResource, TestAWaitForALogContinuesAfterARestart,
// TestOnlySomeJobsOfANodeWaitForLogs, TestLogReaderBlocksNoOtherCall.
func TestJobWaitingForLogBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, looks := following(t)
		waits := follow(n, 1, nil)
		n.push(waits)
		quiet(10 * time.Second)
		other := n.job(2, "container.exec", "web", nil)
		n.push(other)
		n.answeredIn(other, time.Second, "")
		if got := n.got(waits.JobKey); len(got) > 0 || looks() > 0 || !n.active(waits.JobKey) {
			t.Errorf("early answer %v", got)
		}
		n.host.becomes("there", true)
		n.answeredIn(waits, time.Second, "")
		if looks() != 1 {
			t.Errorf("it looked %d times", looks())
		}
	})
}

func TestLogJobEndsWithDeadlineOrResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := following(t)
		waits := follow(n, 1, nil)
		n.push(waits)
		quiet(39 * time.Second)
		if got := n.got(waits.JobKey); len(got) > 0 {
			t.Errorf("before its time it answers %v", got)
		}
		n.answeredIn(waits, 2*time.Second, "")

		waits = follow(n, 2, nil)
		n.push(waits)
		quiet(time.Second)
		n.host.becomes("stopped", false)
		n.answeredIn(waits, 3*time.Second, "")

		waits = follow(n, 3, nil)
		n.push(waits)
		quiet(time.Second)
		n.host.remove(waits)
		n.answeredIn(waits, 3*time.Second, "")

		gone := follow(n, 4, nil)
		n.push(gone)
		n.answeredIn(gone, time.Second, "")

		n.host.mu.Lock()
		n.host.things[writ.ResourceID{Project: n.project, Kind: writ.KindContainer, Name: "web"}] = waits.UID
		n.host.mu.Unlock()
		waits = follow(n, 5, nil)
		n.push(waits)
		quiet(time.Second)
		n.tell(writ.Control{Cancels: map[writ.RunID]int64{waits.Run: time.Now().Add(time.Minute).UnixMilli()}})
		n.answeredIn(waits, time.Second, writ.CodeRunCancelled)
	})
}

func TestAWaitForALogContinuesAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, looks := following(t)
		waits := follow(n, 1, nil)
		n.push(waits)
		quiet(time.Second)
		began := time.Now()
		n = n.again()
		if took := time.Since(began); took > 3*time.Second || looks() > 0 {
			t.Errorf("the runner ends after %s, and has looked %d times", took, looks())
		}
		n.push(follow(n, 1, func(j *writ.Job) { j.Delivery = 2 }))
		quiet(time.Second)
		if got := n.got(waits.JobKey); len(got) > 0 {
			t.Errorf("it answers %v", got)
		}
		n.host.becomes("there", true)
		n.answeredIn(waits, time.Second, "")
	})
}

func TestOnlySomeJobsOfANodeWaitForLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := following(t)
		first, second := follow(n, 1, nil), follow(n, 2, nil) // of four slots, one may wait
		n.push(first)
		quiet(time.Second)
		n.push(second)
		n.answeredIn(second, time.Second, writ.CodeResourceBusy)
		n.host.becomes("there", true)
		n.answeredIn(first, time.Second, "")
		third := follow(n, 3, nil)
		n.push(third)
		n.answeredIn(third, time.Second, "")
	})
}
