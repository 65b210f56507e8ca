package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"writ"
	"writ/internal/sleep"
)

// maxStored limits the bytes of frames that are stored in one transaction, so that other datacenters get their turn.
const maxStored = 1 << 20

// errIncomplete ends a session whose events were discarded during a pause. The next session continues after the last
// stored event.
var errIncomplete = errors.New("events were discarded while the datacenter was paused; they are sent again")

// inflow stores the events of one session: in order, without gaps, each once.
type inflow struct {
	sink     EventSink
	hello    Hello
	intake   *intake
	backlog  *backlog
	received int64               // last stored event
	paused   func(reason string) // called when a pause begins, and with "" when it ends
}

func newInflow(sink EventSink, in *intake, hello Hello, after int64) *inflow {
	return &inflow{sink: sink, hello: hello, intake: in, backlog: newBacklog(in), received: after, paused: func(string) {}}
}

// on receives a frame that belongs to no request. It ignores unknown types of later versions.
func (in *inflow) on(ctx context.Context, f *frame) error {
	if f.Type != typeEvent {
		return nil
	}
	if f.Journal != in.hello.Journal {
		return protocolError{fmt.Sprintf("events of journal %q arrived in a session of %q", f.Journal, in.hello.Journal)}
	}
	return in.backlog.put(ctx, f.Events)
}

// store stores the events of waiting frames, acknowledges them, and waits if the datacenter sends faster than its rate
// limit allows.
func (in *inflow) store(ctx context.Context, p *peer, log *slog.Logger) error {
	defer in.backlog.close()
	for {
		frames, size, err := in.backlog.next(ctx)
		if err != nil {
			return err
		}
		stored, err := in.insist(ctx, frames, size, log)
		if err != nil {
			return err
		}
		if stored > 0 {
			if err := p.send(ctx, &frame{Type: typeAck, Seq: in.received}); err != nil {
				return err
			}
		}
		if in.backlog.remove(len(frames)) {
			return errIncomplete
		}
		if wait := in.intake.charge(in.hello.Datacenter, size.bytes, stored, size.values); wait > 0 {
			if err := sleep.For(ctx, wait); err != nil {
				return err
			}
		}
	}
}

// storeAgain is the pause after a failed attempt to store events. It does not grow, so that freed disk space has an
// immediate effect.
const storeAgain = time.Second

// insist stores the events of frames. It repeats failed attempts: no event may be lost, and requests continue
// meanwhile.
func (in *inflow) insist(
	ctx context.Context, frames []waitingFrame, size frameSize, log *slog.Logger,
) (stored int, err error) {
	for failing := false; ; {
		stored, err = in.attempt(ctx, frames, size)
		_, broken := errors.AsType[protocolError](err)
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case broken || err == nil && !failing:
			return stored, err
		case err == nil:
			in.backlog.pause(false)
			in.paused("")
			log.InfoContext(ctx, "events can be stored again", "after", in.received-int64(stored))
			return stored, nil
		case !failing:
			failing = true
			in.backlog.pause(true)
			log.WarnContext(ctx, "store events; they wait in the datacenter", "err", err, "after", in.received)
		}
		if writ.CodeOf(err) == writ.CodeQuotaExceeded {
			in.paused(writ.AsError(err).Message)
		}
		if err := sleep.For(ctx, storeAgain); err != nil {
			return 0, err
		}
	}
}

// attempt decodes frames and stores their new events in one transaction. It returns the number of new events.
func (in *inflow) attempt(ctx context.Context, frames []waitingFrame, size frameSize) (stored int, err error) {
	end, err := in.intake.begin(ctx, size.bytes, size.values)
	if err != nil {
		return 0, err
	}
	defer end()
	var events []writ.Event
	last, decoded := in.received, 0
	for _, f := range frames {
		all, err := decodeEvents(f.events, Window-decoded)
		if err != nil {
			return 0, err
		}
		decoded += len(all)
		for _, e := range all {
			switch {
			case e.Seq <= last:
				continue // sent twice
			case e.Seq != last+1 && last > 0: // the journal may have deleted its first events
				return 0, protocolError{fmt.Sprintf("event %d arrived instead of %d", e.Seq, last+1)}
			}
			last = e.Seq
			e.Journal = in.hello.Journal
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return 0, nil
	}
	if err := in.sink.StoreEvents(ctx, in.hello.Datacenter, events); err != nil {
		return 0, err
	}
	in.received = last
	return len(events), nil
}
