package runner

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/wake"
	"writ/runner/journal"
)

const (
	// resendAfter is the delay before an unacknowledged result is sent again. The delay doubles each time, up to
	// resendAtLast, because unread results fill the memory of the queue. A message of the supervisor resets the delay.
	resendAfter  = 2 * time.Second
	resendAtLast = time.Minute
	// retryAfter is the pause before a failed read, write or request is repeated.
	retryAfter = time.Second
)

// outbox sends results until the supervisor acknowledges them. Results that wait at the same time share one signature
// and one message: a signature costs more than the rest of a message.
type outbox struct {
	send func(ctx context.Context, results []*writ.Result) error

	mu      sync.Mutex
	pending map[writ.JobKey]*pendingResult // not acknowledged
	fresh   []*pendingResult               // to be sent immediately
	later   []resend                       // sent results, ordered by the time of their next send
	patient bool                           // some delay exceeds resendAfter
	wake    wake.Signal                    // signals due results
}

type pendingResult struct {
	result *writ.Result
	until  time.Time     // time after which the result is dropped
	due    time.Time     // time of the next send, if it is not fresh
	pause  time.Duration // delay after the next send
	fresh  bool          // is in outbox.fresh
	gone   bool          // acknowledged or expired
	sent   chan struct{} // closed once the transport has accepted the result
	was    bool          // sent is closed
}

// resend is a result's entry in outbox.later. The entry is stale if the result was acknowledged, has expired, is in
// outbox.fresh, or is due at another time.
type resend struct {
	result *pendingResult
	due    time.Time
}

func (r resend) stale() bool { return r.result.gone || r.result.fresh || !r.due.Equal(r.result.due) }

func newOutbox(send func(context.Context, []*writ.Result) error) *outbox {
	return &outbox{send: send, pending: map[writ.JobKey]*pendingResult{}, wake: wake.New()}
}

// post enqueues the result of a job. The last possible delivery of the job is at the time `until`. The returned channel
// is closed once the transport has accepted the result. If the result is already queued, post sends it again
// immediately and resets its delay.
func (o *outbox) post(result *writ.Result, until time.Time) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.pending[result.JobKey]
	if l == nil {
		l = &pendingResult{result: result, until: until.Add(journal.Keep), sent: make(chan struct{})}
		o.pending[result.JobKey] = l
	}
	l.result = result // equal, but possibly the answer to another delivery
	l.pause = resendAfter
	if !l.fresh {
		l.fresh = true
		o.fresh = append(o.fresh, l)
		o.wake.Raise()
	}
	return l.sent
}

// acknowledge removes results that the supervisor has received.
func (o *outbox) acknowledge(keys []writ.JobKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range keys {
		if l := o.pending[key]; l != nil {
			l.gone = true
			l.markSent()
			delete(o.pending, key)
		}
	}
}

// retryNow resets all delays. It is called for each message of the supervisor, which shows that the supervisor is
// reachable.
func (o *outbox) retryNow(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.patient {
		return
	}
	o.patient = false
	for _, l := range o.pending {
		l.pause = resendAfter
	}
	o.later = slices.DeleteFunc(o.later, resend.stale)
	for i := range o.later {
		r := &o.later[i]
		r.due = earlier(r.due, now.Add(resendAfter))
		r.result.due = r.due
	}
	o.wake.Raise()
}

// size returns the number of unacknowledged results.
func (o *outbox) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending)
}

// run sends until ctx ends.
func (o *outbox) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		runtime.Gosched() // lets concurrent posts join this message
		batch, pause := o.next(time.Now())
		wake := o.wake
		if len(batch) > 0 {
			if o.deliver(ctx, batch) {
				continue
			}
			pause, wake = retryAfter, nil // new results do not shorten this pause
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-wake:
		}
	}
}

// next removes the results that are due now and returns at most envelope.MaxRecords of them. pause is the time until
// the next result is due, or resendAfter if there is no such result.
func (o *outbox) next(now time.Time) (batch []*pendingResult, pause time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.later) > 0 && (o.later[0].stale() || !o.later[0].due.After(now)) {
		r := o.later[0]
		o.later = o.later[1:]
		if !r.stale() {
			r.result.fresh = true
			o.fresh = append(o.fresh, r.result)
		}
	}
	for len(o.fresh) > 0 && len(batch) < envelope.MaxRecords {
		l := o.fresh[0]
		o.fresh = o.fresh[1:]
		l.fresh = false
		switch {
		case l.gone:
		case now.After(l.until):
			l.gone = true
			l.markSent()
			delete(o.pending, l.result.JobKey)
		default:
			batch = append(batch, l)
		}
	}
	pause = resendAfter
	if len(o.later) > 0 {
		pause = o.later[0].due.Sub(now)
	}
	return batch, pause
}

// deliver sends a batch and reports whether the transport accepted it. Otherwise the batch remains fresh.
func (o *outbox) deliver(ctx context.Context, batch []*pendingResult) bool {
	o.mu.Lock()
	results := make([]*writ.Result, len(batch))
	for i, l := range batch {
		results[i] = l.result
	}
	o.mu.Unlock()
	err := o.send(ctx, results)
	now := time.Now()

	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range batch {
		switch {
		case l.gone || l.fresh: // acknowledged, or posted again, during the send
		case err != nil:
			l.fresh = true
			o.fresh = append(o.fresh, l)
		default:
			o.shelve(l, now)
		}
		if err == nil {
			l.markSent()
		}
	}
	return err == nil
}

// shelve schedules the next send of a result that was sent. The caller holds mu.
func (o *outbox) shelve(l *pendingResult, now time.Time) {
	l.due = now.Add(l.pause)
	o.patient = o.patient || l.pause > resendAfter
	l.pause = min(2*l.pause, resendAtLast)
	place, _ := slices.BinarySearchFunc(o.later, l.due, func(r resend, due time.Time) int {
		return cmp.Or(r.due.Compare(due), -1) // behind entries with the same time
	})
	o.later = slices.Insert(o.later, place, resend{l, l.due})
}

func (l *pendingResult) markSent() {
	if !l.was {
		l.was = true
		close(l.sent)
	}
}
