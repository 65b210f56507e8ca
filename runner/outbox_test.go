package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/runner/journal"
)

// mailed is an outbox that runs, and what it sent.
type mailed struct {
	*outbox
	batches [][]*writ.Result
	refuse  bool
}

func mailing(t *testing.T) *mailed {
	m := &mailed{}
	m.outbox = newOutbox(func(_ context.Context, results []*writ.Result) error {
		if m.refuse {
			return errors.New("away")
		}
		m.batches = append(m.batches, results)
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { m.run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	return m
}

func resultOf(seq int) *writ.Result {
	return &writ.Result{JobKey: writ.JobKey{Run: "r", Seq: seq, Try: 1}}
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
		time.Sleep(5 * time.Second)
		synctest.Wait()
		sent := len(m.batches)
		time.Sleep(time.Minute)
		synctest.Wait()
		if m.size() != 0 || len(m.batches) != sent {
			t.Error("the result is sent although nobody asks for it any more")
		}
	})
}

func TestAResultThatIsPostedAgainIsStillSentEveryTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mailing(t)
		for range 5 {
			m.post(resultOf(1), time.Now())
			synctest.Wait()
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got := len(m.batches); got != 5+10 {
			t.Errorf("sent %d times, want 5 times as posted and 10 times in 20 seconds", got)
		}
		if len(m.later) != 1 {
			t.Errorf("%d places in the line for one result", len(m.later))
		}
	})
}

func TestAnAcknowledgementEndsTheWaitForTheTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mailing(t)
		m.refuse = true // whether it was sent is unknown then
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
		if len(m.batches) != 0 || m.size() != 0 {
			t.Error("a result that was acknowledged is sent")
		}
	})
}
