package link

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/clip"
	"writ/internal/limit"
)

// Limits of a desk.
const (
	maxRunning       = 128     // requests without a sent answer; further requests are refused with RATE_LIMITED
	maxRepeats       = 1024    // repeated answers and refusals that wait to be sent; further answers are dropped
	maxAnswers       = 1024    // remembered IDs
	maxAnswerBytes   = 8 << 20 // total size of remembered answers
	uncountedPerItem = 128     // added to each answer, so that empty answers count too
)

// desk answers the requests of the other side of a link. It handles each request ID once, also across sessions. A
// handler continues if its session ends, and a repeated request with the same ID gets the same answer.
type desk struct {
	log     *slog.Logger
	running *sync.WaitGroup // the goroutines that answer requests
	lines   limit.Lines     // rate-limited log of failed requests, by verb and code

	mu      sync.Mutex
	busy    int // requests without a sent answer
	repeats int // repeated answers and refusals that wait to be sent
	answers map[string]*answer
	order   []string // IDs in order of arrival
	bytes   int
}

// answer is the state of the answer to one request ID.
type answer struct {
	by   *peer  // newest session that sent the request
	done []byte // encoded answer, nil while the handler runs
}

func newDesk(running *sync.WaitGroup, log *slog.Logger) *desk {
	return &desk{log: log, running: running, answers: map[string]*answer{}}
}

// take answers a request in its own goroutine and does not block. ctx is the context of the handler; it outlives the
// session.
func (d *desk) take(ctx context.Context, p *peer, f *frame) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.answers[f.ID]
	switch {
	case a != nil:
		a.by = p
		if a.done != nil {
			d.repeat(ctx, p, a.done)
		}
	case d.busy >= maxRunning:
		err := writ.Errorf(writ.CodeRateLimited, "%d requests are in progress, which is the limit", d.busy)
		d.note(ctx, f, err)
		data, _ := d.encode(f, nil, err)
		d.repeat(ctx, p, data)
	default:
		a = &answer{by: p}
		d.busy++
		d.answers[f.ID] = a
		d.order = append(d.order, f.ID)
		d.running.Go(func() { d.work(ctx, p, f, a) })
	}
}

// repeat sends an encoded answer in its own goroutine. It drops the answer if too many answers wait: the other side
// then sends requests without reading the answers. The caller holds mu.
func (d *desk) repeat(ctx context.Context, p *peer, data []byte) {
	if d.repeats >= maxRepeats {
		return
	}
	d.repeats++
	d.running.Go(func() {
		p.forward(ctx, data)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.repeats--
	})
}

// work calls the handler and sends its answer through the newest session that sent the request.
func (d *desk) work(ctx context.Context, p *peer, f *frame, a *answer) {
	result, err := d.call(ctx, p, f)
	data, unfit := d.encode(f, result, err)
	if unfit != nil {
		err = unfit
		data, _ = d.encode(f, nil, err)
	}
	d.note(ctx, f, err)

	d.mu.Lock()
	a.done = data
	d.bytes += len(data) + uncountedPerItem
	d.forget()
	d.mu.Unlock()
	d.asker(a).forward(ctx, data)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy--
}

// note logs why a request failed. The log is rate-limited per verb and code, because the other side may ask at any
// rate. An error with a proof is a signed refusal, which its handler has logged.
func (d *desk) note(ctx context.Context, f *frame, err error) {
	e := writ.AsError(err)
	// If this side stops or becomes standby, the error is not about the request.
	if err == nil || len(e.Proof) > 0 || ctx.Err() != nil {
		return
	}
	kind := string(e.Code)
	if e.Code != writ.CodeVerbUnsupported { // otherwise the verb is arbitrary text of the other side
		kind += " " + string(f.Verb)
	}
	times, say := d.lines.Say(kind, time.Now())
	switch {
	case !say:
	case e.Code == writ.CodeInternal:
		d.log.ErrorContext(ctx, "answer request", "verb", f.Verb, "request", f.ID, "code", e.Code, "err", err, "times", times)
	default:
		d.log.InfoContext(ctx, "request refused", "verb", shown(string(f.Verb)), "request", f.ID, "code", e.Code,
			"err", shown(err.Error()), "times", times)
	}
}

// maxShown limits text of the other side in a log line, in bytes.
const maxShown = 500

func shown(text string) string { return clip.Prefix(text, maxShown) }

// call calls the handler if it supports the verb. It recovers a panic.
func (d *desk) call(ctx context.Context, p *peer, f *frame) (result any, err error) {
	if !slices.Contains(p.verbs, f.Verb) {
		return nil, writ.Errorf(writ.CodeVerbUnsupported, "the request %q is unknown or not permitted here", f.Verb)
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("handler of %s panicked: %v\n%s", f.Verb, cause, debug.Stack())
		}
	}()
	return p.answer(ctx, f.Verb, f.Params)
}

// encode returns the frame of an answer. If the answer cannot be encoded, the caller sends the returned error instead.
func (d *desk) encode(f *frame, result any, failed error) ([]byte, error) {
	res := &frame{Type: typeResponse, ID: f.ID, OK: failed == nil}
	if failed != nil {
		res.Error = failureOf(failed)
	} else {
		raw, err := json.Marshal(result)
		if err != nil {
			return nil, fmt.Errorf("encode answer: %w", err)
		}
		res.Result = raw
	}
	return res.encode()
}

// forget drops the oldest answers while there are too many. Entries of running handlers are kept. The caller holds mu.
func (d *desk) forget() {
	kept := d.order[:0]
	for i, id := range d.order {
		if len(kept)+len(d.order)-i <= maxAnswers && d.bytes <= maxAnswerBytes {
			kept = append(kept, d.order[i:]...)
			break
		}
		if a := d.answers[id]; a.done == nil {
			kept = append(kept, id)
		} else {
			d.bytes -= len(a.done) + uncountedPerItem
			delete(d.answers, id)
		}
	}
	d.order = kept
}

// asker returns the session that receives the answer.
func (d *desk) asker(a *answer) *peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return a.by
}

// forward sends encoded bytes unless the session has ended. A lost answer is not an error: the other side asks again if
// it still waits. forward drops the bytes if ctx has ended: the handler's answer then reflects the shutdown of this
// side, not a failure of the request.
func (p *peer) forward(ctx context.Context, data []byte) {
	if ctx.Err() != nil {
		return
	}
	select {
	case p.out <- data:
	case <-p.done:
	case <-ctx.Done():
	}
}
