package runner

import (
	"context"
	"runtime"
	"sync"
	"time"

	"writ"
	"writ/identity/seal"
	"writ/runner/journal"
)

const (
	// resendAfter is when a result that was not acknowledged is sent again.
	resendAfter = 2 * time.Second
	// retryAfter is the pause after the transport refused something.
	retryAfter = time.Second
)

// outbox sends results until the supervisor acknowledges them. Results that wait at the same time share one seal and one message:
// a signature costs more than everything else in a message.
type outbox struct {
	send func(ctx context.Context, results []*writ.Result) error

	mu      sync.Mutex
	letters map[writ.JobKey]*letter // not acknowledged
	fresh   []*letter               // to be sent at once
	later   []resend                // sent, in the order in which they are due again
	wake    chan struct{}           // holds one token
}

type letter struct {
	result *writ.Result
	until  time.Time     // after this nobody wants it
	due    time.Time     // when it is sent again, if it is not fresh
	fresh  bool          // is in outbox.fresh
	gone   bool          // acknowledged, or too old
	sent   chan struct{} // closed once the transport has it
	was    bool          // sent is closed
}

// resend is a letter's place in outbox.later. It means nothing any more if the letter is due at another time.
type resend struct {
	letter *letter
	due    time.Time
}

func (r resend) stale() bool { return r.letter.gone || r.letter.fresh || !r.due.Equal(r.letter.due) }

func newOutbox(send func(context.Context, []*writ.Result) error) *outbox {
	return &outbox{send: send, letters: map[writ.JobKey]*letter{}, wake: make(chan struct{}, 1)}
}

// post hands a result over, of a job that can be delivered until a time. The channel is closed once the transport has it. A result that is
// already here is sent again at once.
func (o *outbox) post(result *writ.Result, until time.Time) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.letters[result.JobKey]
	if l == nil {
		l = &letter{result: result, until: until.Add(journal.Keep), sent: make(chan struct{})}
		o.letters[result.JobKey] = l
	}
	l.result = result // the same, but maybe as the answer to another delivery
	if !l.fresh {
		l.fresh = true
		o.fresh = append(o.fresh, l)
		o.rouse()
	}
	return l.sent
}

// acknowledge forgets results that the supervisor has.
func (o *outbox) acknowledge(keys []writ.JobKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range keys {
		if l := o.letters[key]; l != nil {
			l.gone = true
			l.markSent()
			delete(o.letters, key)
		}
	}
}

// size returns how many results are not acknowledged.
func (o *outbox) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.letters)
}

// run sends until ctx ends.
func (o *outbox) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		runtime.Gosched() // lets those who are about to post join this message
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

// next takes out what is to be sent now, or says for how long there is nothing.
func (o *outbox) next(now time.Time) (batch []*letter, pause time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.later) > 0 && (o.later[0].stale() || !o.later[0].due.After(now)) {
		r := o.later[0]
		o.later = o.later[1:]
		if !r.stale() {
			r.letter.fresh = true
			o.fresh = append(o.fresh, r.letter)
		}
	}
	for len(o.fresh) > 0 && len(batch) < seal.MaxRecords {
		l := o.fresh[0]
		o.fresh = o.fresh[1:]
		l.fresh = false
		switch {
		case l.gone:
		case now.After(l.until):
			l.gone = true
			l.markSent()
			delete(o.letters, l.result.JobKey)
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

// deliver sends a batch and reports whether the transport took it. If it did not, the batch stays to be sent at once.
func (o *outbox) deliver(ctx context.Context, batch []*letter) bool {
	o.mu.Lock()
	results := make([]*writ.Result, len(batch))
	for i, l := range batch {
		results[i] = l.result
	}
	o.mu.Unlock()
	err := o.send(ctx, results)
	due := time.Now().Add(resendAfter)

	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range batch {
		switch {
		case l.gone || l.fresh: // acknowledged, or posted again, while it was sent
		case err != nil:
			l.fresh = true
			o.fresh = append(o.fresh, l)
		default:
			l.due = due
			o.later = append(o.later, resend{l, due})
		}
		if err == nil {
			l.markSent()
		}
	}
	return err == nil
}

// rouse wakes run. The caller holds mu.
func (o *outbox) rouse() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (l *letter) markSent() {
	if !l.was {
		l.was = true
		close(l.sent)
	}
}
