package link

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/internal/limit"
)

// Bounds of a desk.
const (
	maxRunning       = 128     // requests being answered at once; more are refused with RATE_LIMITED
	maxAnswers       = 1024    // remembered ids
	maxAnswerBytes   = 8 << 20 // of remembered answers together
	uncountedPerItem = 128     // bytes, so that empty answers count too
)

// desk answers the requests of one other side, each id once, whichever session it comes by: work goes on when its session is cut,
// and the same id in the next session gets the same answer.
type desk struct {
	log     *slog.Logger
	running *sync.WaitGroup // of the goroutines that answer
	lines   limit.Lines     // of requests without an answer, by verb and code

	mu      sync.Mutex
	busy    int
	answers map[string]*answer
	order   []string // ids in the order in which they came
	bytes   int
}

// answer is what is known of one id.
type answer struct {
	by   *peer  // the newest session that asked
	done []byte // the encoded answer, nil while it is being worked on
}

func newDesk(running *sync.WaitGroup, log *slog.Logger) *desk {
	return &desk{log: log, running: running, answers: map[string]*answer{}}
}

// take answers a request, in a goroutine of its own: it does not wait. ctx is that of the work, not of the session.
func (d *desk) take(ctx context.Context, p *peer, f *frame) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.answers[f.ID]
	switch {
	case a != nil:
		a.by = p
		if a.done != nil {
			data := a.done
			d.running.Go(func() { p.forward(ctx, data) })
		}
	case d.busy >= maxRunning:
		err := writ.Errorf(writ.CodeRateLimited, "%d requests are being answered already", d.busy)
		d.note(ctx, f, err)
		data, _ := d.encode(f, nil, err)
		d.running.Go(func() { p.forward(ctx, data) })
	default:
		a = &answer{by: p}
		d.busy++
		d.answers[f.ID] = a
		d.order = append(d.order, f.ID)
		d.running.Go(func() { d.work(ctx, p, f, a) })
	}
}

// work calls the handler and sends its answer by the newest session that asked for it.
func (d *desk) work(ctx context.Context, p *peer, f *frame, a *answer) {
	progress := func(stage, detail string) {
		data, err := (&frame{Type: typeProgress, ID: f.ID, Stage: stage, Detail: detail}).encode()
		if err == nil {
			d.asker(a).forward(ctx, data)
		}
	}
	result, err := d.call(ctx, p, f, progress)
	data, unfit := d.encode(f, result, err)
	if unfit != nil {
		err = unfit
		data, _ = d.encode(f, nil, err)
	}
	d.note(ctx, f, err)

	d.mu.Lock()
	d.busy--
	a.done = data
	d.bytes += len(data) + uncountedPerItem
	d.forget()
	d.mu.Unlock()
	d.asker(a).forward(ctx, data)
}

// note logs why a request gets no answer. The other side asks as often as it likes, so there is one line in a while of each verb and code. Who decided
// with a proof has logged that.
func (d *desk) note(ctx context.Context, f *frame, err error) {
	e := writ.AsError(err)
	if err == nil || len(e.Proof) > 0 || ctx.Err() != nil { // who stops, or stands by from now on, neither refuses nor is at fault
		return
	}
	kind := string(e.Code)
	if e.Code != writ.CodeVerbUnsupported { // else the verb is a word of the other side
		kind += " " + string(f.Verb)
	}
	times, say := d.lines.Say(kind, time.Now())
	switch {
	case !say:
	case e.Code == writ.CodeInternal:
		d.log.ErrorContext(ctx, "answer request", "verb", f.Verb, "request", f.ID, "code", e.Code, "err", err, "times", times)
	default:
		d.log.InfoContext(ctx, "request refused", "verb", shown(string(f.Verb)), "request", f.ID, "code", e.Code, "err", shown(err.Error()), "times", times)
	}
}

// maxShown bounds the words of others in a line of the log, in bytes.
const maxShown = 500

func shown(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxShown)], "") }

// call calls the handler, if it knows the verb, and survives its panic.
func (d *desk) call(ctx context.Context, p *peer, f *frame, progress func(stage, detail string)) (result any, err error) {
	if !slices.Contains(p.verbs, f.Verb) {
		return nil, writ.Errorf(writ.CodeVerbUnsupported, "%q is no request that can be answered here", f.Verb)
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("handler of %s panicked: %v\n%s", f.Verb, cause, debug.Stack())
		}
	}()
	return p.answer(ctx, f.Verb, f.Params, progress)
}

// encode returns the frame of an answer. Its error is one that can be sent instead.
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

// forget drops the oldest answers while there are too many. What is being worked on stays. The caller holds the lock.
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

// asker returns the session to answer by.
func (d *desk) asker(a *answer) *peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return a.by
}

// forward sends encoded bytes as long as the session lasts. That they do not arrive is no error: who still waits asks again. Once ctx has
// ended nothing is sent: what a handler answered then says that this side stops, and not that the request failed.
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
