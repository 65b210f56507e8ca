package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/runner/journal"
)

// mailed is a running outbox, with the results that it sent.
type mailed struct {
	*outbox
	refuse bool
	note   func(results []*writ.Result) // may be nil; not called concurrently

	guard sync.Mutex
	kept  [][]*writ.Result
}

// batches returns the batches sent so far.
func (m *mailed) batches() [][]*writ.Result {
	m.guard.Lock()
	defer m.guard.Unlock()
	return slices.Clone(m.kept)
}

func mailing(t *testing.T) *mailed {
	m := &mailed{}
	m.outbox = newOutbox(func(_ context.Context, results []*writ.Result) error {
		if m.refuse {
			return errors.New("away")
		}
		m.guard.Lock()
		defer m.guard.Unlock()
		m.kept = append(m.kept, results)
		if m.note != nil {
			m.note(results)
		}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { m.run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	return m
}

func resultOf(seq int) *writ.Result {
	return &writ.Result{JobKey: writ.JobKey{Run: "r", Seq: seq, Attempt: 1}}
}

func TestAResultIsGivenUpWhenItsRowIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mailing(t)
		m.post(resultOf(1), time.Now())
		time.Sleep(journal.Keep - time.Second)
		synctest.Wait()
		if m.size() != 1 {
			t.Error("the result was given up before its time")
		}
		time.Sleep(resendAtLast)
		synctest.Wait()
		sent := len(m.batches())
		time.Sleep(time.Minute)
		synctest.Wait()
		if m.size() != 0 || len(m.batches()) != sent {
			t.Error("an abandoned result is still sent")
		}
	})
}

func TestRepostedResultWaitsLikeNewResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mailing(t)
		for range 5 {
			m.post(resultOf(1), time.Now())
			synctest.Wait()
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got := len(m.batches()); got != 5+3 {
			t.Errorf("sent %d times, want 5 times as posted, and then after 2, 4 and 8 seconds", got)
		}
		if len(m.later) != 1 {
			t.Errorf("%d places in the line for one result", len(m.later))
		}
	})
}

func TestAcknowledgementEndsTransportWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mailing(t)
		m.refuse = true // whether it was sent is then unknown
		sent := m.post(resultOf(1), time.Now())
		time.Sleep(10 * time.Second)
		select {
		case <-sent:
			t.Error("sent although the transport is away")
		default:
		}
		m.acknowledge([]writ.JobKey{resultOf(1).JobKey})
		<-sent
		m.refuse = false
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(m.batches()) != 0 || m.size() != 0 {
			t.Error("a result that was acknowledged is sent")
		}
	})
}

// Promise: Recovery: Results do not accumulate in Redis while the supervisor is down, and arrive within 2 s after its
// return.
// How: The pause before a repeat doubles from 2 s to a minute; a control message resets it.
// Also: TestResultsFollowFirstSignOfSupervisor, TestAResultIsSentAgainUntilItIsAcknowledged.
func TestUnacknowledgedResultsAreSentWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mailing(t)
		began := time.Now()
		var sent []time.Duration // of the first result
		m.note = func(results []*writ.Result) {
			if results[0].Seq == 1 {
				sent = append(sent, time.Since(began))
			}
		}
		m.post(resultOf(1), began)
		time.Sleep(200 * time.Second)
		synctest.Wait()
		before := len(m.batches())
		m.post(resultOf(2), began) // has its own pauses
		time.Sleep(7 * time.Second)
		synctest.Wait()
		var want []time.Duration
		for _, seconds := range []time.Duration{0, 2, 6, 14, 30, 62, 122, 182} {
			want = append(want, seconds*time.Second)
		}
		m.guard.Lock()
		got := slices.Clone(sent)
		m.guard.Unlock()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		if got := len(m.batches()) - before; got != 3 {
			t.Errorf("a new result was sent %d times in 7 seconds, want 3", got)
		}
		before = len(m.batches())
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := len(m.batches()) - before; got > 2*62 {
			t.Errorf("two results were sent %d times in an hour", got)
		}
	})
}

func TestResultsFollowFirstSignOfSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mailing(t)
		for seq := range 3 {
			m.post(resultOf(seq), time.Now())
			time.Sleep(time.Second)
		}
		for range 10 { // at different points of the pause
			time.Sleep(10*time.Minute + 7*time.Second)
			synctest.Wait()
			before := len(m.batches())
			m.retryNow(time.Now())
			time.Sleep(resendAfter)
			synctest.Wait()
			got := map[int]bool{}
			for _, batch := range m.batches()[before:] {
				for _, r := range batch {
					got[r.Seq] = true
				}
			}
			if len(got) != 3 {
				t.Errorf("%d of 3 results were sent in the first pause after the supervisor was heard", len(got))
			}
			m.mu.Lock()
			places := len(m.later)
			m.mu.Unlock()
			if places != 3 {
				t.Errorf("%d places in the line for 3 results", places)
			}
		}
	})
}
