package link

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"writ"
)

// inflow takes the events of one session: in order, without gap, each once.
type inflow struct {
	sink     EventSink
	hello    Hello
	received int64 // the last event that came; of the reader alone
	waiting  chan []writ.Event
}

func newInflow(sink EventSink, hello Hello, after int64) *inflow {
	// A sender that keeps to the window never fills the channel: every entry has at least one event.
	return &inflow{sink: sink, hello: hello, received: after, waiting: make(chan []writ.Event, Window)}
}

// on takes the frames of a session that are not of requests.
func (in *inflow) on(f *frame) error {
	if f.Type != typeEvent {
		return nil // types of later versions
	}
	if f.Journal != in.hello.Journal {
		return protocolError{fmt.Sprintf("events of journal %q came in a session of %q", f.Journal, in.hello.Journal)}
	}
	fresh := f.Events[:0]
	for _, e := range f.Events {
		switch {
		case e.Seq <= in.received:
			continue // sent twice: the store has it, or gets it
		case e.Seq != in.received+1 && in.received > 0: // a journal may have forgotten its first events
			return protocolError{fmt.Sprintf("event %d came where %d was due", e.Seq, in.received+1)}
		}
		in.received = e.Seq
		e.Journal = f.Journal
		fresh = append(fresh, e)
	}
	if len(fresh) == 0 {
		return nil
	}
	select {
	case in.waiting <- fresh:
		return nil
	default:
		return protocolError{fmt.Sprintf("more than %d events are unacknowledged", Window)}
	}
}

// store puts events into the sink, all that wait in one transaction, and acknowledges them after that.
func (in *inflow) store(ctx context.Context, p *peer, log *slog.Logger) error {
	for {
		var events []writ.Event
		select {
		case events = <-in.waiting:
		case <-ctx.Done():
			return ctx.Err()
		}
		for len(in.waiting) > 0 {
			events = append(events, <-in.waiting...)
		}
		if err := in.insist(ctx, events, log); err != nil {
			return err
		}
		if err := p.send(ctx, &frame{Type: typeAck, Seq: events[len(events)-1].Seq}); err != nil {
			return err
		}
	}
}

// storeAgain is the pause after events could not be stored. It does not grow: a store is near, and whoever made room for it looks whether
// that helped.
const storeAgain = time.Second

// insist stores events, again and again while the sink fails: nothing may be passed over, and requests go on meanwhile.
func (in *inflow) insist(ctx context.Context, events []writ.Event, log *slog.Logger) error {
	for told := false; ; {
		err := in.sink.StoreEvents(ctx, in.hello.Datacenter, events)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && told:
			log.InfoContext(ctx, "events can be stored again", "from", events[0].Seq)
			return nil
		case err == nil:
			return nil
		case !told:
			log.WarnContext(ctx, "store events; they wait in the datacenter", "err", err, "from", events[0].Seq)
			told = true
		}
		select {
		case <-time.After(storeAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
