package link

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"writ"
	"writ/internal/broadcast"
	"writ/internal/limit"
	"writ/internal/sleep"
)

// outflow sends the events of a journal in one session: in order, starting after the coordinator's last event, with at
// most Window unacknowledged.
type outflow struct {
	source EventSource

	mu      sync.Mutex
	sent    int64            // last event sent
	acks    int64            // last event acknowledged
	changed broadcast.Signal // wakes when acks rises
}

func newOutflow(source EventSource, after int64) *outflow {
	return &outflow{source: source, sent: after, acks: after}
}

// state returns the positions of the flow, and a channel that is closed when acks rises.
func (o *outflow) state() (sent, acks int64, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent, o.acks, o.changed.Next()
}

// acked handles an ack of the coordinator.
func (o *outflow) acked(seq int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if seq > o.sent {
		return protocolError{fmt.Sprintf("event %d was acknowledged, but the last event sent is %d", seq, o.sent)}
	}
	if seq > o.acks {
		o.acks = seq
		o.changed.Wake()
	}
	return nil
}

// send sends events until ctx ends or the source fails.
func (o *outflow) send(ctx context.Context, p *peer) error {
	var head eventHead
	for {
		sent, acks, changed := o.state()
		room := Window - int(sent-acks)
		if room == 0 {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		journal, events, err := o.source.EncodedEvents(ctx, sent, room)
		if err != nil {
			return fmt.Errorf("read events after %d: %w", sent, err)
		}
		if err := head.set(journal); err != nil {
			return err
		}
		if err := o.sendAll(ctx, p, head.text, events[:min(len(events), room)]); err != nil {
			return err
		}
	}
}

// sendAll sends events in frames of about maxBatch bytes that begin with head.
func (o *outflow) sendAll(ctx context.Context, p *peer, head string, events []writ.EncodedEvent) error {
	for len(events) > 0 {
		data, n, err := eventFrame(head, events)
		if err != nil {
			return err
		}
		o.mu.Lock()
		first, next := events[0].Seq, o.sent+1
		if o.sent == 0 { // the coordinator has no events of this journal, and the first events may have been deleted
			o.acks, next = first-1, first
		}
		if first == next {
			o.sent = events[n-1].Seq // set before the frame is sent: the ack may arrive before hand returns
		}
		o.mu.Unlock()
		if first != next {
			return fmt.Errorf("the journal returned event %d instead of %d", first, next)
		}
		if err := p.hand(ctx, data); err != nil {
			return fmt.Errorf("send event %d: %w", first, err)
		}
		events = events[n:]
	}
	return nil
}

// eventHead is the start of every frame with events of one journal generation.
type eventHead struct{ journal, text string }

// set encodes the head for a journal generation, unless it is the generation of the last call.
func (h *eventHead) set(journal string) error {
	if h.text != "" && journal == h.journal {
		return nil
	}
	name, err := json.Marshal(journal)
	if err != nil {
		return err
	}
	h.journal, h.text = journal, `{"type":"`+typeEvent+`","journal":`+string(name)+`,"events":[`
	return nil
}

// eventFrame encodes the first n of events in one frame of at most maxBatch bytes, or a single larger event.
func eventFrame(head string, events []writ.EncodedEvent) (data []byte, n int, err error) {
	size := len(head) + len("]}")
	for n == 0 || n < len(events) && size+len(events[n].JSON) <= maxBatch {
		size += len(events[n].JSON) + len(",")
		n++
	}
	data = append(make([]byte, 0, size), head...)
	for i, e := range events[:n] {
		if i > 0 {
			data = append(data, ',')
		}
		data = append(data, e.JSON...)
	}
	data = append(data, "]}"...)
	return data, n, checkFrame(typeEvent, data)
}

// confirmEvery is the minimum interval between acknowledgements to the source. The source only needs them to delete old
// events eventually. If an acknowledgement is lost, the coordinator reports its position again when the next session
// begins.
const confirmEvery = 200 * time.Millisecond

// confirm acknowledges the coordinator's position to the source. If acks arrive faster than confirmEvery, only the
// newest is used.
func (o *outflow) confirm(ctx context.Context, log *slog.Logger) error {
	var lines limit.Lines
	confirmed := int64(0)
	for {
		_, acks, changed := o.state()
		if acks > confirmed {
			if err := o.source.Acknowledge(ctx, acks); err != nil && ctx.Err() == nil {
				if times, say := lines.Say("", time.Now()); say {
					log.WarnContext(ctx, "record the acknowledgement of the coordinator", "seq", acks, "err", err, "times", times)
				}
			}
			confirmed = acks
			if err := sleep.For(ctx, confirmEvery); err != nil {
				return err
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
